"""``World``: entities and facts of a fictional wiki, before any page states them."""

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
"""Shares of the kinds among the entities."""
SHARED = ("person", "town", "ship", "book")
"""Kinds in which two entities may share a name."""
NAMED_TWICE = ("person", "town", "ship", "book")
"""Kinds whose entities may have a second name."""
GAPS, STUBS, TWINS, SECOND = 0.08, 0.06, 0.07, 0.4
"""Shares of unknown facts, of short pages, of entities with another's name, and of those with a second name."""
THIS_YEAR = 1975
"""Year in which the wiki was last revised."""


@dataclass(frozen=True, slots=True, eq=False)
class Entity:
    """An entity of the wiki, such as a town or a painter, with a page of its own.

    Args:
        number: number, unique in its world.
        kind: one of ``KINDS``.
        name: name, which another entity of the kind may share.
        sort: description beside its kind, such as ``painter``; it differs between two entities with the same name.
        title: title of its page, unique in the wiki.
        alias: second name; empty if there is none.
    """

    number: int
    kind: str
    name: str
    sort: str
    title: str
    alias: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names that answers and questions may use for it."""
        bare = self.name.removeprefix("River ") if self.kind == "river" else ""  # no other name contains this word
        return tuple(dict.fromkeys(one for one in (self.name, self.title, self.alias, bare) if one))

    @property
    def shared(self) -> bool:
        """Whether another entity has its name."""
        return self.title != self.name


Value = Entity | int | str


@dataclass(frozen=True, slots=True)
class Term:
    """A holder's term.

    Args:
        start: first year.
        end: last year, which is the next holder's first; ``None`` for the current holder.
        holder: the holder, of the kind ``person``.
    """

    start: int
    end: int | None
    holder: Entity


@dataclass
class World:
    """Entities and the facts about them.

    Args:
        entities: entities in a fixed order.
    """

    entities: tuple[Entity, ...]
    facts: dict[tuple[int, str], Value] = field(default_factory=dict)
    terms: dict[tuple[int, str], tuple[Term, ...]] = field(default_factory=dict)
    gaps: set[tuple[int, str]] = field(default_factory=set)
    earlier: dict[tuple[int, str], int] = field(default_factory=dict)
    """Numbers that an earlier revision gives."""
    revised: dict[int, int] = field(default_factory=dict)
    """Years of earlier revisions, by the number of their entity."""
    subjects: dict[tuple[str, int], list[Entity]] = field(default_factory=lambda: defaultdict(list))
    """Subjects of a relation to an entity, by relation and the entity's number."""
    by_kind: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))

    def of_kind(self, kind: str) -> Sequence[Entity]:
        """Return the entities of a kind."""
        return self.by_kind[kind]

    def value(self, entity: Entity, relation: Relation) -> Value | None:
        """Return the current object of a relation; ``None`` if no page states it."""
        if relation.dated:
            terms = self.terms.get((entity.number, relation.name))
            return terms[-1].holder if terms else None
        return self.facts.get((entity.number, relation.name))


def share_of_trouble(size: int) -> float:
    """Return the share of pages that are lists, copies, earlier revisions or quotes; larger wikis have more."""
    return min(0.4, max(0.16, 0.2 + 0.04 * log2(size / 100)))


def made(split: Split, number: int, count: int, block: int = 0) -> World:
    """Return a world with a number of entities: a pure function of the arguments."""
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
    """Yield named entities with their sorts; the order of kinds is random."""
    least = [kind for kind in KINDS for _ in range(3)]
    kinds = (least + rng.choices(KINDS, SHARES, k=max(0, count - len(least))))[:count]
    rng.shuffle(kinds)
    named: list[tuple[str, str, str]] = []
    before: dict[str, list[str]] = defaultdict(list)
    often: dict[tuple[str, str], int] = defaultdict(int)
    for kind in kinds:
        sorts = words()["sorts"][kind]
        if kind in SHARED and before[kind] and rng.random() < TWINS:
            name = before[kind].pop(rng.randrange(len(before[kind])))  # two may share a name, three may not
            sorts = tuple(one for one in sorts if (kind, name, one) not in named)
        else:
            name = names.name(kind, names.root())
            before[kind].append(name)
        named.append((kind, name, rng.pick(sorts)))
        often[kind, name] += 1
    for i, (kind, name, sort) in enumerate(named):
        alone = often[kind, name] == 1
        second = alone and kind in NAMED_TWICE and rng.random() < SECOND
        alias = names.name(kind, names.root()) if second else ""
        yield Entity(i, kind, name, sort, name if alone else f"{name} ({sort})", alias)


def _tell(world: World, one: Entity, rng: Rng) -> None:
    """Draw the facts about an entity."""
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
    """Draw another entity, the first ones more often, so that some occur in many facts and some in few."""
    while True:
        found = some[min(rng.randrange(len(some)), rng.randrange(len(some)))]
        if found is not one:
            return found


def _terms(world: World, rng: Rng, one: Entity) -> tuple[Term, ...]:
    """Draw the terms of two or three holders, one after another."""
    people = rng.sample(world.of_kind("person"), 3 if rng.random() < 0.5 else 2)
    years = [rng.randint(1860, 1900)]
    for _ in people:
        years.append(years[-1] + rng.randint(5, 22))
    ends: list[int | None] = [*years[1 : len(people)], None]
    return tuple(Term(years[i], ends[i], person) for i, person in enumerate(people))


def _revise(world: World, one: Entity, rng: Rng, known: Sequence[Relation]) -> None:
    """Draw the year of an entity's earlier revision, and the numbers that it gives."""
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
