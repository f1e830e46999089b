"""``World``: what is so in a fictional wiki, before any page tells it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log2

from ...rng import Rng
from ...spec import Split
from .names import Names, words
from .relations import KINDS, Relation, relations_of

SHARES = (0.30, 0.12, 0.06, 0.06, 0.11, 0.12, 0.05, 0.08, 0.04, 0.06)
"""Of the kinds among the entities."""
SHARED = ("person", "town", "ship", "book")
"""Kinds in which two entities may have one name."""
NAMED_TWICE = ("person", "town", "ship", "book")
"""Kinds whose entities may have a second name."""
GAPS, STUBS, TWINS, SECOND = 0.08, 0.06, 0.07, 0.4
"""Shares: facts that nobody knows, pages that tell little, entities with another's name, those with a second one."""
THIS_YEAR = 1975
"""In which the wiki was last revised."""


@dataclass(frozen=True, slots=True, eq=False)
class Entity:
    """Somebody or something that has a page.

    Args:
        number: unique in its world.
        kind: one of ``KINDS``.
        name: which another entity of the kind may share.
        sort: what it is called beside its kind, such as ``painter``; two of one name differ in it.
        title: of its page, which nothing else has.
        alias: a second name, or nothing.
    """

    number: int
    kind: str
    name: str
    sort: str
    title: str
    alias: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """What it may be called."""
        bare = self.name.removeprefix("River ") if self.kind == "river" else ""  # no other name has this word
        return tuple(dict.fromkeys(one for one in (self.name, self.title, self.alias, bare) if one))

    @property
    def shared(self) -> bool:
        """Whether another has its name."""
        return self.title != self.name


Value = Entity | int | str


@dataclass(frozen=True, slots=True)
class Term:
    """How long somebody held something.

    Args:
        start: the first year.
        end: the last year, which is the next one's first; ``None`` while it lasts.
        holder: who.
    """

    start: int
    end: int | None
    holder: Entity


@dataclass
class World:
    """Entities and what is so of them.

    Args:
        entities: in an order that never changes.
    """

    entities: tuple[Entity, ...]
    facts: dict[tuple[int, str], Value] = field(default_factory=dict)
    terms: dict[tuple[int, str], tuple[Term, ...]] = field(default_factory=dict)
    gaps: set[tuple[int, str]] = field(default_factory=set)
    earlier: dict[tuple[int, str], int] = field(default_factory=dict)
    """Numbers that an earlier revision tells."""
    revised: dict[int, int] = field(default_factory=dict)
    """The years of earlier revisions, by the number of their entity."""
    subjects: dict[tuple[str, int], list[Entity]] = field(default_factory=lambda: defaultdict(list))
    """Who stands in a relation to an entity."""
    by_kind: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))

    def of_kind(self, kind: str) -> Sequence[Entity]:
        """The entities of a kind."""
        return self.by_kind[kind]

    def value(self, entity: Entity, relation: Relation) -> Value | None:
        """What is so now; nothing, where it is not told."""
        if relation.dated:
            terms = self.terms.get((entity.number, relation.name))
            return terms[-1].holder if terms else None
        return self.facts.get((entity.number, relation.name))


def share_of_trouble(size: int) -> float:
    """The share of pages that are lists, copies, earlier revisions or of poor sources; larger wikis have more."""
    return min(0.4, max(0.16, 0.2 + 0.04 * log2(size / 100)))


def made(split: Split, number: int, count: int, block: int = 0) -> World:
    """A world of so many entities: a pure function of the arguments."""
    rng = Rng("wiki world", str(split), number, count, block)
    world = World(tuple(_entities(rng, Names(split, number, block), count)))
    for one in world.entities:
        world.by_kind[one.kind].append(one)
    for one in world.entities:
        _tell(world, one, rng)
    for (subject, name), value in world.facts.items():
        if isinstance(value, Entity):
            world.subjects[name, value.number].append(world.entities[subject])
    return world


def _entities(rng: Rng, names: Names, count: int) -> Iterable[Entity]:
    """Named and sorted entities; the order of kinds is random."""
    least = [kind for kind in KINDS for _ in range(3)]
    kinds = (least + rng.choices(KINDS, SHARES, k=max(0, count - len(least))))[:count]
    rng.shuffle(kinds)
    told: list[tuple[str, str, str]] = []
    before: dict[str, list[str]] = defaultdict(list)
    often: dict[tuple[str, str], int] = defaultdict(int)
    for kind in kinds:
        sorts = words()["sorts"][kind]
        if kind in SHARED and before[kind] and rng.random() < TWINS:
            name = before[kind].pop(rng.randrange(len(before[kind])))  # two may share a name, three may not
            sorts = tuple(one for one in sorts if (kind, name, one) not in told)
        else:
            name = names.name(kind, names.root())
            before[kind].append(name)
        told.append((kind, name, rng.pick(sorts)))
        often[kind, name] += 1
    for i, (kind, name, sort) in enumerate(told):
        alone = often[kind, name] == 1
        second = alone and kind in NAMED_TWICE and rng.random() < SECOND
        alias = names.name(kind, names.root()) if second else ""
        yield Entity(i, kind, name, sort, name if alone else f"{name} ({sort})", alias)


def _tell(world: World, one: Entity, rng: Rng) -> None:
    """Decide what is so of an entity."""
    known = list(relations_of(one.kind))
    stub = rng.random() < STUBS
    if stub:
        known = rng.sample(known, 2)
    for relation in known:
        key = (one.number, relation.name)
        if rng.random() < GAPS:
            world.gaps.add(key)
        elif relation.dated:
            world.terms[key] = _terms(world, rng, one)
        elif relation.numeric:
            world.facts[key] = rng.randint(relation.range[0], relation.range[1])
        elif relation.linked:
            world.facts[key] = _other(world.of_kind(relation.to), one, rng)
        else:
            world.facts[key] = rng.pick(words()["always"][relation.to])
    _revise(world, one, rng, known)


def _other(some: Sequence[Entity], one: Entity, rng: Rng) -> Entity:
    """Another entity, the first ones more often, so that some are named by many and some by few."""
    while True:
        found = some[min(rng.randrange(len(some)), rng.randrange(len(some)))]
        if found is not one:
            return found


def _terms(world: World, rng: Rng, one: Entity) -> tuple[Term, ...]:
    """Two to four holders, one after another."""
    people = rng.sample(world.of_kind("person"), 3 if rng.random() < 0.5 else 2)
    years = [rng.randint(1860, 1900)]
    for _ in people:
        years.append(years[-1] + rng.randint(5, 22))
    ends: list[int | None] = [*years[1 : len(people)], None]
    return tuple(Term(years[i], ends[i], person) for i, person in enumerate(people))


def _revise(world: World, one: Entity, rng: Rng, known: Sequence[Relation]) -> None:
    """Decide of which year an earlier revision is, and which numbers it tells."""
    held = [world.terms[one.number, rel.name] for rel in known if (one.number, rel.name) in world.terms]
    changing = [rel for rel in known if rel.changes and (one.number, rel.name) in world.facts]
    if not held and not changing:
        return
    starts = {term.start for terms in held for term in terms}
    first, last = (held[0][0].start + 1, held[0][-1].start - 1) if held else (1880, 1950)
    world.revised[one.number] = rng.pick([year for year in range(first, last + 1) if year not in starts])
    for relation in changing:
        now = world.facts[one.number, relation.name]
        assert isinstance(now, int)
        world.earlier[one.number, relation.name] = max(7, now * rng.randint(35, 90) // 100)
