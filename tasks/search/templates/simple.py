"""Templates whose questions follow a chain of facts, from one end or the other."""

from __future__ import annotations

from dataclasses import replace

from ..wiki.relations import relations, relations_of
from ..wiki.world import NAMED_TWICE, Entity, Value
from .query import Alias, Fact, Named, Which
from .scene import Described, Scene, TaskDraft, Unsuitable
from .template import Template

THINGS = ("river", "guild", "instrument")
WORDS = ("creature", "dye", "timber")


def spellings(value: Value) -> tuple[str, ...]:
    """Return the accepted spellings of a value."""
    if isinstance(value, Entity):
        return value.spellings
    return tuple(dict.fromkeys((str(value), str(value).removesuffix(" wood"))))  # the question asks for a wood


def asked(scene: Scene, about: Described, *kinds: str) -> TaskDraft:
    """Ask for an object of some kinds, about an entity that the question already describes."""
    relation = scene.pick([one for one in relations_of(about.entity.kind) if one.to in kinds and one.lasting])
    value = scene.value(about.entity, relation)
    rests = (*about.rests, scene.rest(about.entity, relation, name=about.called))
    return TaskDraft(Fact(relation.name, about.node), spellings(value), rests, len(rests))


def fact(scene: Scene, *kinds: str) -> TaskDraft:
    """Ask for an object of some kinds, about a random entity."""
    # Facts that change over time belong to the templates that give a date.
    relation = scene.pick([one for one in relations().values() if one.to in kinds and one.lasting])
    return asked(scene, scene.described(scene.entity(relation.of)), *kinds)


def person(scene: Scene) -> TaskDraft:
    """Ask for someone, as in "Who wrote …?"."""
    return fact(scene, "person")


def town(scene: Scene) -> TaskDraft:
    """Ask for a town, as in "In which town …?"."""
    return fact(scene, "town")


def company(scene: Scene) -> TaskDraft:
    """Ask for a company, as in "Which company …?"."""
    return fact(scene, "company")


def thing(scene: Scene) -> TaskDraft:
    """Ask for a river, a guild or an instrument."""
    return fact(scene, *THINGS)


def year(scene: Scene) -> TaskDraft:
    """Ask for a year, as in "In which year …?"."""
    return fact(scene, "year")


def number(scene: Scene) -> TaskDraft:
    """Ask for a number, as in "How many …?"."""
    return fact(scene, "number")


def word(scene: Scene) -> TaskDraft:
    """Ask for a color, an animal or a wood."""
    return fact(scene, *WORDS)


def second_name(scene: Scene) -> TaskDraft:
    """Ask for an entity's second name."""
    one = scene.pick([one for kind in NAMED_TWICE for one in scene.world.of_kind(kind) if one.alias])
    about = scene.described(one)
    rests = (*about.rests, scene.rest_name(one, about.called))
    return TaskDraft(Alias(about.node), (one.alias,), rests, len(rests))


def by_second_name(scene: Scene) -> TaskDraft:
    """Ask for a fact about an entity that the question calls by its second name."""
    one = scene.pick([one for kind in NAMED_TWICE for one in scene.world.of_kind(kind) if one.alias])
    found = asked(scene, scene.walked(one, Named(one.alias)), "person", "town", "company", "year", "number", *THINGS)
    if one.name in found.answers:
        raise Unsuitable
    # The second name may be on another page than the fact.
    return replace(found, rests=(scene.rest_name(one, one.alias), *found.rests))


def which(scene: Scene, *kinds: str) -> TaskDraft:
    """Ask for the only subject of a relation."""
    relation = scene.pick([one for one in relations().values() if one.which and one.of in kinds])
    one = scene.entity(relation.to)
    subjects = scene.world.subjects.get((relation.name, one.number), [])
    if len(subjects) != 1 or subjects[0] is one:
        raise Unsuitable
    about = scene.described(one)
    rests = (*about.rests, scene.rest_clause(subjects[0], relation, about))
    return TaskDraft(Which(relation.name, about.node), subjects[0].spellings, rests, len(rests))


def which_person(scene: Scene) -> TaskDraft:
    """Ask for someone by one fact, as in "Who was born in …?"."""
    return which(scene, "person")


def which_thing(scene: Scene) -> TaskDraft:
    """Ask for a thing by one fact, as in "Which book was written by …?"."""
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
