"""Templates whose questions follow facts one after another, from one end or the other."""

from __future__ import annotations

from dataclasses import replace

from ..wiki.relations import relations, relations_of
from ..wiki.world import NAMED_TWICE, Entity, Value
from .query import Alias, Fact, Named, Which
from .scene import Asked, Described, Scene, Unsuitable
from .template import Template

THINGS = ("river", "guild", "instrument")
WORDS = ("creature", "dye", "timber")


def spellings(value: Value) -> tuple[str, ...]:
    """What a value may be called in an answer."""
    if isinstance(value, Entity):
        return value.spellings
    return tuple(dict.fromkeys((str(value), str(value).removesuffix(" wood"))))  # the question says that it is of wood


def asked(scene: Scene, about: Described, *kinds: str) -> Asked:
    """Ask for an object of some kinds of something that is described already."""
    relation = scene.pick([one for one in relations_of(about.entity.kind) if one.to in kinds and one.lasting])
    value = scene.value(about.entity, relation)
    rests = (*about.rests, scene.rest(about.entity, relation, name=about.called))
    return Asked(Fact(relation.name, about.node), spellings(value), rests, len(rests))


def fact(scene: Scene, *kinds: str) -> Asked:
    """Ask for an object of some kinds."""
    # What changes in the course of time is for the templates that say when.
    relation = scene.pick([one for one in relations().values() if one.to in kinds and one.lasting])
    return asked(scene, scene.described(scene.entity(relation.of)), *kinds)


def person(scene: Scene) -> Asked:
    """Who wrote …?"""
    return fact(scene, "person")


def town(scene: Scene) -> Asked:
    """In which town …?"""
    return fact(scene, "town")


def company(scene: Scene) -> Asked:
    """Which company …?"""
    return fact(scene, "company")


def thing(scene: Scene) -> Asked:
    """Which river, guild or instrument …?"""
    return fact(scene, *THINGS)


def year(scene: Scene) -> Asked:
    """In which year …?"""
    return fact(scene, "year")


def number(scene: Scene) -> Asked:
    """How many …?"""
    return fact(scene, "number")


def word(scene: Scene) -> Asked:
    """Which colour, animal or wood …?"""
    return fact(scene, *WORDS)


def second_name(scene: Scene) -> Asked:
    """What else is … called?"""
    one = scene.pick([one for kind in NAMED_TWICE for one in scene.world.of_kind(kind) if one.alias])
    about = scene.described(one)
    rests = (*about.rests, scene.rest_name(one, about.called))
    return Asked(Alias(about.node), (one.alias,), rests, len(rests))


def by_second_name(scene: Scene) -> Asked:
    """A fact of what is known by its second name."""
    one = scene.pick([one for kind in NAMED_TWICE for one in scene.world.of_kind(kind) if one.alias])
    found = asked(scene, scene.walked(one, Named(one.alias)), "person", "town", "company", "year", "number", *THINGS)
    if one.name in found.answers:
        raise Unsuitable
    # Whose name it is may stand on another page than the fact.
    return replace(found, rests=(scene.rest_name(one, one.alias), *found.rests))


def which(scene: Scene, *kinds: str) -> Asked:
    """Ask for the only one that stands in a relation to something."""
    relation = scene.pick([one for one in relations().values() if one.which and one.of in kinds])
    one = scene.entity(relation.to)
    subjects = scene.world.subjects.get((relation.name, one.number), [])
    if len(subjects) != 1 or subjects[0] is one:
        raise Unsuitable
    about = scene.described(one)
    rests = (*about.rests, scene.rest_clause(subjects[0], relation, about))
    return Asked(Which(relation.name, about.node), subjects[0].spellings, rests, len(rests))


def which_person(scene: Scene) -> Asked:
    """Who was born in …?"""
    return which(scene, "person")


def which_thing(scene: Scene) -> Asked:
    """Which book was written by …?"""
    return which(scene, "book", "ship", "company", "guild", "building", "festival", "town")


TEMPLATES = (
    Template("fact-person", "chain", person),
    Template("fact-town", "chain", town),
    Template("fact-company", "chain", company),
    Template("fact-thing", "chain", thing),
    Template("fact-year", "chain", year),
    Template("fact-number", "chain", number),
    Template("fact-word", "chain", word),
    Template("second-name", "chain", second_name),
    Template("by-second-name", "chain", by_second_name, held_out=True),
    Template("which-person", "chain", which_person),
    Template("which-thing", "chain", which_thing),
)
