"""``Library``: parsed pages that can answer questions. It does not know how the pages were generated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from ..document import Document
from ..templates.query import Alias, Beside, Both, Compare, Count, Fact, Named, Node, Query, Since, Then, Which
from ..templates.scene import NOBODY, UNKNOWN
from ..wiki.relations import relations
from .questions import Known, understood
from .reading import Held, Read, read


class Untold(Exception):
    """Raised when the pages do not give a fact, or not unambiguously."""


class Library:
    """Parsed pages that can answer questions.

    Args:
        pages: the pages.

    Raises:
        TaskError: a sentence is ambiguous.
    """

    def __init__(self, pages: Iterable[Document]) -> None:
        self._reads = [read(one) for one in pages]
        self._about: dict[str, list[Read]] = defaultdict(list)
        self._lists: dict[tuple[str, str], list[Read]] = defaultdict(list)
        self._objects: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        self._listed: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for one in self._reads:
            self._keep(one)
        self.known = self._names()
        self._without: frozenset[str] = frozenset()

    def _keep(self, one: Read) -> None:
        if one.listed:
            relation, object_, subjects = one.listed
            self._lists[relation, object_].append(one)
            for subject in subjects:
                self._objects[relation, object_].append((subject, one.id))
                self._listed[relation, subject].append((object_, one.id))
        if one.kind:
            self._about[one.about].append(one)
            for relation, value in one.facts.items() if one.current else ():
                self._objects[relation, value].append((one.about, one.id))

    def answers(self, question: str, without: Collection[str] = ()) -> set[str]:
        """Return the answer of the pages to each reading of a question.

        A reading whose answer the pages lack, or to which they give several answers, contributes none.

        Args:
            question: the question in words.
            without: ids of pages to ignore.
        """
        self._without = frozenset(without)
        found = set()
        for query in understood(question, self.known):
            try:
                found.add(self._answer(query))
            except Untold:
                continue
        return found

    def _answer(self, query: Query) -> str:
        match query:
            case Fact(relation, node):
                return self._value(self._entity(node), relation)
            case Then(relation, node, year):
                return self._then(self._entity(node), relation, year)
            case Since(relation, node, holder):
                return str(self._term(self._entity(node), relation, self._entity(holder)).start)
            case Beside():
                return self._beside(query)
            case Which(relation, node):
                return _only(self._subjects(relation, self._entity(node)))
            case Both(relation, node, other, second):
                some = self._subjects(relation, self._entity(node))
                return _only(some & self._subjects(other, self._entity(second)))
            case Count():
                return self._count(query)
            case Compare():
                return self._compare(query)
            case Alias(node):
                title = self._entity(node)
                return _only({one.alias for one in self._pages(title) if one.alias and not one.source})

    def _pages(self, title: str) -> list[Read]:
        return [one for one in self._about.get(title, ()) if one.id not in self._without]

    def _entity(self, node: Node) -> str:
        """Return the title of an entity."""
        if not isinstance(node, Named):
            title = self._value(self._entity(node.inner), node.relation)
            if title in UNKNOWN:
                raise Untold
            return title
        if node.sort:
            return f"{node.name} ({node.sort})"
        # A second name leads to an entity only through a page that gives this name.
        second = {
            one.about for some in self._about.values() for one in some if one.alias == node.name and not one.source
        }
        if second:
            able = {one for one in second if any(page.alias == node.name for page in self._pages(one))}
            return _only(able)
        return node.name

    def _value(self, title: str, relation: str) -> str:
        """Return the current object of a relation."""
        found: set[str] = set()
        for one in self._pages(title):
            if not one.current:
                continue
            if relation in one.gaps:
                found.add(UNKNOWN[0])
            if relation in one.facts:
                found.add(one.facts[relation])
            found |= {term.holder for term in one.terms.get(relation, ()) if term.end is None}
        found |= {value for value, id in self._listed.get((relation, title), ()) if id not in self._without}
        return _only(found)

    def _terms(self, title: str, relation: str) -> list[tuple[Held, Read]]:
        return [(term, one) for one in self._pages(title) if not one.source for term in one.terms.get(relation, ())]

    def _then(self, title: str, relation: str, year: int) -> str:
        if relations()[relation].changes:
            return _only(
                {one.facts[relation] for one in self._pages(title) if one.year == year and relation in one.facts}
            )
        found = set()
        for term, page in self._terms(title, relation):
            end = term.end or page.year or 9999
            if term.start < year < end or (term.end is None and year == page.year):
                found.add(term.holder)
        for page in self._pages(title):
            if year < page.none.get(relation, 0):
                found.add(NOBODY[0])
        return _only(found)

    def _term(self, title: str, relation: str, holder: str) -> Held:
        some = {term for term, _ in self._terms(title, relation) if term.holder == holder}
        if len({term.start for term in some}) != 1:
            raise Untold
        return max(some, key=lambda term: term.end is not None)

    def _beside(self, query: Beside) -> str:
        title = self._entity(query.node)
        named = self._term(title, query.relation, self._entity(query.holder))
        some = [term for term, _ in self._terms(title, query.relation)]
        if query.ahead:
            return _only({term.holder for term in some if term.end == named.start})
        return _only({term.holder for term in some if term.start == named.end})

    def _subjects(self, relation: str, title: str) -> set[str]:
        return {one for one, id in self._objects.get((relation, title), ()) if id not in self._without}

    def _count(self, query: Count) -> str:
        title = self._entity(query.node)
        some = [one for one in self._lists.get((query.relation, title), ()) if one.id not in self._without]
        if not some or some[0].listed is None:
            raise Untold
        subjects = some[0].listed[2]
        if not query.dated:
            return str(len(subjects))
        return str(sum(self._number(one, query.dated) < query.year for one in subjects))

    def _compare(self, query: Compare) -> str:
        first, second = self._entity(query.first), self._entity(query.second)
        a, b = self._number(first, query.relation), self._number(second, query.relation)
        if a == b:
            raise Untold
        found = first if (a > b) is query.more else second
        return self._value(found, query.then) if query.then else found

    def _number(self, title: str, relation: str) -> int:
        value = self._value(title, relation)
        if not value.isdigit():
            raise Untold
        return int(value)

    def _names(self) -> Known:
        """Return the names of everything that the pages mention."""
        kinds: dict[str, str] = {}
        for one in self._reads:
            if one.listed:
                relation = relations()[one.listed[0]]
                kinds[one.listed[1]] = relation.to
                kinds.update(dict.fromkeys(one.listed[2], relation.of))
            if one.kind:
                kinds[one.about] = one.kind
                facts = [
                    *one.facts.items(),
                    *((name, term.holder) for name, some in one.terms.items() for term in some),
                ]
                kinds.update({value: relations()[name].to for name, value in facts if relations()[name].linked})
        found: dict[str, tuple[Named, str]] = {}
        for title, kind in kinds.items():
            name, _, sort = title.partition(" (")
            node = Named(name, sort.rstrip(")"))
            found[f"the {node.sort} {name}" if sort else title] = (node, kind)
        found.update({one.alias: (Named(one.alias), one.kind) for one in self._reads if one.alias})
        return found


def _only(some: set[str]) -> str:
    """Return the only element of a set."""
    if len(some) != 1:
        raise Untold
    return next(iter(some))
