"""``Scene``: a wiki as templates see it, and the support of their questions by pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...rng import Rng
from ..task import Lookup
from ..wiki.pages import Wiki
from ..wiki.relations import KINDS, Relation, relations, relations_of
from ..wiki.world import Entity, Value
from .query import Named, Node, Of, Query

T = TypeVar("T")
UNKNOWN = ("unknown", "unanswerable", "not known", "it is not known", "cannot be answered", "nobody knows")
"""Accepted answers to a question that has no answer."""
NOBODY = ("nobody", "no one", "none", "there was none")
"""Accepted answers to a question about an office that no one held at the time."""


class Unsuitable(Exception):
    """Raised when a draw has nothing to ask; another draw may have."""


@dataclass(frozen=True, slots=True)
class Resting:
    """The support of one fact by pages.

    Args:
        pages: ids of the pages that state the fact; any one suffices.
        lookup: search that finds one of them.
    """

    pages: tuple[str, ...]
    lookup: Lookup


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A question of a template, with its answers and its support.

    Args:
        query: structure of the question.
        answers: accepted spellings of the answer.
        rests: facts that support it, in the order in which an agent finds them.
        hops: number of facts to follow one after another.
    """

    query: Query
    answers: tuple[str, ...]
    rests: tuple[Resting, ...]
    hops: int


@dataclass(frozen=True, slots=True)
class Described:
    """An entity, and a phrase for it."""

    entity: Entity
    node: Node
    rests: tuple[Resting, ...]

    @property
    def called(self) -> str:
        """Words to search for: the name in the question, or else the title from an earlier page."""
        if isinstance(self.node, Named):
            return f"{self.node.sort} {self.node.name}".strip()
        return self.entity.title


class Scene:
    """A wiki and random numbers, from which a template generates a question.

    Args:
        wiki: wiki that the question is about.
        rng: random numbers of this draw.
        extra: number of further facts that describe the entity in the question.
    """

    def __init__(self, wiki: Wiki, rng: Rng, extra: int) -> None:
        self.wiki, self.world, self.rng, self.extra = wiki, wiki.world, rng, extra

    def pick(self, some: Sequence[T]) -> T:
        """Draw one of some things.

        Raises:
            Unsuitable: there are none.
        """
        if not some:
            raise Unsuitable
        return self.rng.pick(some)

    def entity(self, kind: str) -> Entity:
        """Draw an entity of a kind."""
        return self.pick(self.world.of_kind(kind))

    def value(self, one: Entity, relation: Relation) -> Value:
        """Return the value of an entity's relation.

        Raises:
            Unsuitable: the wiki does not state it.
        """
        found = self.world.value(one, relation)
        if found is None:
            raise Unsuitable
        return found

    def described(self, one: Entity, extra: int | None = None) -> Described:
        """Return an entity as a question describes it: by its name, or by facts that lead to it from another entity.

        Args:
            one: the entity.
            extra: number of facts; the scene's, if left out.

        Raises:
            Unsuitable: no facts lead to it.
        """
        path: list[tuple[Entity, Relation]] = []
        seen, at = {one.number}, one
        for _ in range(self.extra if extra is None else extra):
            subject, relation = self.pick(self._pointing(at))
            if subject.number in seen:
                raise Unsuitable
            seen.add(subject.number)
            path.insert(0, (subject, relation))
            at = subject
        if at.shared:
            raise Unsuitable
        return self._followed(Described(at, Named(at.name), ()), [relation for _, relation in path])

    def walked(self, one: Entity, node: Named) -> Described:
        """Return the entity that facts lead to from another one, by as many facts as the scene has.

        Args:
            one: the entity.
            node: name of the entity in the question.

        Raises:
            Unsuitable: they lead back.
        """
        at, path, seen = one, [], {one.number}
        for _ in range(self.extra):
            relation = self.relation(at.kind, *KINDS)
            value = self.value(at, relation)
            assert isinstance(value, Entity)
            if value.number in seen:
                raise Unsuitable
            seen.add(value.number)
            path.append(relation)
            at = value
        return self._followed(Described(one, node, ()), path)

    def _followed(self, about: Described, path: Sequence[Relation]) -> Described:
        for relation in path:
            value = self.value(about.entity, relation)
            assert isinstance(value, Entity)
            rest = self.rest(about.entity, relation, name=about.called)
            about = Described(value, Of(relation.name, about.node), (*about.rests, rest))
        return about

    def relation(self, of: str, *to: str) -> Relation:
        """Draw a relation between kinds."""
        return self.pick([one for one in relations_of(of) if one.to in to])

    def rest(self, one: Entity, relation: Relation, *, name: str = "") -> Resting:
        """Return the support of the current value of a relation, or of the statement that it is unknown.

        Args:
            one: the entity.
            relation: relation of the entity.
            name: words to search for; the title of the entity, if left out.
        """
        pages = self.wiki.pages_of(one)
        value = self.world.value(one, relation)
        if isinstance(value, Entity) and (relation.name, value.number) in self.wiki.lists:
            pages = (*pages, self.wiki.lists[relation.name, value.number])
        return Resting(pages, self._lookup(one, name))

    def rest_then(self, one: Entity, relation: Relation, year: int, name: str) -> Resting:
        """Return the support of who held an office in a year; an earlier revision may state it as well."""
        pages, then = self.wiki.pages_of(one), self.world.revised.get(one.number, 0)
        if one.number in self.wiki.revisions and year <= then and (one.number, relation.name) in self.world.terms:
            pages = (*pages, self.wiki.revisions[one.number])
        return Resting(pages, self._lookup(one, name))

    def rest_revision(self, one: Entity, year: int, name: str) -> Resting:
        """Return the support of a number from an earlier revision."""
        id = self.wiki.revisions[one.number]
        return Resting((id,), Lookup(f"{name} revision {year}", id))

    def rest_name(self, one: Entity, name: str) -> Resting:
        """Return the support of an entity's second name: its page, the copy of it, or an earlier revision."""
        where = (self.wiki.main, self.wiki.copies, self.wiki.revisions)
        return Resting(tuple(some[one.number] for some in where if one.number in some), self._lookup(one, name))

    def rest_clause(self, one: Entity, relation: Relation, *objects: Described) -> Resting:
        """Return the support of a relation between an unknown entity and known ones."""
        known = self.rest(one, relation)
        # No word for what it is: lists have it in their titles.
        return Resting(known.pages, Lookup(" ".join(one.entity.title for one in objects), known.lookup.document))

    def rest_list(self, relation: Relation, about: Described) -> Resting:
        """Return the support of the number of entities in a relation to another."""
        id = self.wiki.lists[relation.name, about.entity.number]
        return Resting((id,), Lookup(relation.list.format(o=about.entity.title), id))

    def _lookup(self, one: Entity, name: str = "") -> Lookup:
        return Lookup(name or one.title, self.wiki.main[one.number])

    def _pointing(self, one: Entity) -> Sequence[tuple[Entity, Relation]]:
        """Return the entities and relations that have an entity as their value and that a phrase can express."""
        if "pointing" not in self.wiki.remembered:
            found: dict[int, list[tuple[Entity, Relation]]] = defaultdict(list)
            for relation in relations().values():
                for subject in self.world.of_kind(relation.of):
                    value = self.world.value(subject, relation)
                    if relation.np and isinstance(value, Entity):
                        found[value.number].append((subject, relation))
            self.wiki.remembered["pointing"] = found
        return self.wiki.remembered["pointing"].get(one.number, ())  # type: ignore[no-any-return]
