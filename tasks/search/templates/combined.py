"""Templates whose questions combine several facts: comparison, intersection, count."""

from __future__ import annotations

from collections import defaultdict

from ...rng import unit_hash
from ..wiki.relations import Relation, relations
from ..wiki.world import Entity
from .query import Both, Compare, Count
from .scene import Described, Resting, Scene, TaskDraft, Unsuitable
from .simple import spellings
from .template import Template

COUNTED = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def compared(scene: Scene, to: str) -> tuple[Compare, Entity, tuple[Resting, ...], int]:
    """Draw two entities of which one has the greater number. The question describes both, so that it names neither."""
    relation = scene.pick([one for one in relations().values() if one.less and one.to == to])
    first, second = scene.entity(relation.of), scene.entity(relation.of)
    a, b = scene.value(first, relation), scene.value(second, relation)
    if first.name == second.name or not isinstance(a, int) or not isinstance(b, int) or a == b:
        raise Unsuitable
    one, two = scene.described(first, max(1, scene.extra)), scene.described(second, 1)
    more = scene.rng.random() < 0.5
    found = first if (a > b) is more else second
    asked = Compare(relation.name, more, one.node, two.node)
    rests = (*one.rests, *two.rests, scene.rest(first, relation), scene.rest(second, relation))
    if len({rest.pages for rest in rests}) < len(rests):
        raise Unsuitable  # one page states two of the facts
    return asked, found, rests, len(one.rests) + 1


def compare(scene: Scene, to: str) -> TaskDraft:
    """Ask which of two entities has the greater or smaller number."""
    query, found, rests, hops = compared(scene, to)
    return TaskDraft(query, found.spellings, rests, hops)


def compare_years(scene: Scene) -> TaskDraft:
    """Ask which of two entities is older."""
    return compare(scene, "year")


def compare_numbers(scene: Scene) -> TaskDraft:
    """Ask which of two entities is larger."""
    return compare(scene, "number")


def compare_then(scene: Scene) -> TaskDraft:
    """Ask for a fact about the older of two entities."""
    query, found, rests, hops = compared(scene, "year")
    relation = scene.relation(found.kind, "person", "town", "company", "river", "guild", "instrument")
    value = scene.value(found, relation)
    rests = (*rests, scene.rest(found, relation))
    asked = Compare(query.relation, query.more, query.first, query.second, relation.name)
    return TaskDraft(asked, spellings(value), rests, hops + 1)


def both(scene: Scene, *kinds: str) -> TaskDraft:
    """Ask for the only entity for which two facts hold."""
    one = scene.entity(scene.pick(kinds))
    some = [rel for rel in relations().values() if rel.of == one.kind and rel.clause and not rel.dated]
    first, second = scene.rng.sample(some, 2)
    a, b = scene.value(one, first), scene.value(one, second)
    if not isinstance(a, Entity) or not isinstance(b, Entity) or a is b or not first.noun:
        raise Unsuitable
    left, right = (scene.world.subjects[rel.name, x.number] for rel, x in ((first, a), (second, b)))
    if [x for x in left if x in right] != [one] or len(left) < 2 or len(right) < 2:
        raise Unsuitable
    about, beside = scene.described(a), scene.described(b, 0)
    # Both facts are on one page: it is found by the words of both.
    near = scene.rest_clause(one, first, about, beside)
    rests = (*about.rests, near, scene.rest_clause(one, second, beside, about))
    # The description goes last: a clause behind it would read as part of it.
    query = Both(second.name, beside.node, first.name, about.node)
    return TaskDraft(query, one.spellings, rests, len(about.rests) + 1)


def both_person(scene: Scene) -> TaskDraft:
    """Ask for someone by two facts, as in "Which person was born in … and joined …?"."""
    return both(scene, "person")


def both_thing(scene: Scene) -> TaskDraft:
    """Ask for a thing by two facts, as in "Which book was published by … and is set in …?"."""
    return both(scene, "book", "ship", "building", "festival")


def listed(scene: Scene, *kinds: str) -> tuple[Relation, Described, list[Entity], Resting]:
    """Draw an entity that has a page with the list of all subjects of one of its relations."""
    some: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for name, of in scene.wiki.lists:
        n = len(scene.world.subjects[name, of])
        # Most lists have two entries. Ask about few of those, so that "two" is not a good guess.
        if relations()[name].of in kinds and (n > 2 or unit_hash(scene.wiki.corpus.name, name, of) < 0.3):
            some[n].append((name, of))
    name, of = scene.pick(some[scene.pick(sorted(some))])
    relation, one = relations()[name], scene.world.entities[of]
    about = scene.described(one)
    return relation, about, scene.world.subjects[name, of], scene.rest_list(relation, about)


def count(scene: Scene, *kinds: str) -> TaskDraft:
    """Ask for the number of subjects."""
    relation, about, subjects, listing = listed(scene, *kinds)
    rests = (*about.rests, listing)
    return TaskDraft(Count(relation.name, about.node), counted(len(subjects)), rests, len(rests))


def counted(n: int) -> tuple[str, ...]:
    """Return a number in figures and in words."""
    return (str(n), COUNTED[n]) if 0 < n < len(COUNTED) else (str(n),)


def count_people(scene: Scene) -> TaskDraft:
    """Ask for a number of people, as in "How many people were born in …?"."""
    return count(scene, "person")


def count_things(scene: Scene) -> TaskDraft:
    """Ask for a number of things, as in "How many ships were built by …?"."""
    return count(scene, "book", "ship", "company", "guild", "building", "festival", "town")


def count_before(scene: Scene) -> TaskDraft:
    """Ask for a number with a year, as in "How many of the ships that … were launched before …?"."""
    relation, about, subjects, listing = listed(scene, "person", "book", "ship", "company", "building")
    if len(subjects) > 6:
        raise Unsuitable
    dated = scene.pick([one for one in relations().values() if one.of == relation.of and one.before])
    years = [scene.value(one, dated) for one in subjects]
    year = scene.rng.randint(dated.range[0] + 20, dated.range[1] - 20)
    n = sum(isinstance(one, int) and one < year for one in years)
    if not n or year in years:
        raise Unsuitable
    rests = (*about.rests, listing, *(scene.rest(one, dated) for one in subjects))
    return TaskDraft(Count(relation.name, about.node, dated.name, year), counted(n), rests, len(about.rests) + 2)


TEMPLATES = (
    Template("compare-years", "comparison", compare_years),
    Template("compare-numbers", "comparison", compare_numbers, held_out=True),
    Template("compare-then", "comparison", compare_then, held_out=True, hard=True),
    Template("both-person", "intersection", both_person),
    Template("both-thing", "intersection", both_thing),
    Template("count-people", "count", count_people),
    Template("count-things", "count", count_things),
    Template("count-before", "count", count_before, held_out=True),
)
