"""Parse questions back into queries, given the names that a reader knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product

from ..templates import wording
from ..templates.query import Alias, Beside, Both, Compare, Count, Fact, Named, Node, Of, Query, Since, Then, Which
from ..wiki.relations import Relation, relations

Known = Mapping[str, tuple[Named, str]]
"""Every known name, with the entity as a value and its kind."""


def understood(question: str, known: Known) -> list[Query]:
    """Return every query that a question can mean."""
    reader = _Reader(known)
    return list(dict.fromkeys(reader.queries(question)))


class _Reader:
    def __init__(self, known: Known) -> None:
        self.known = known
        self._nodes: dict[str, list[tuple[Node, str]]] = {}

    def queries(self, text: str) -> Iterator[Query]:
        for one in relations().values():
            yield from self._plain(text, one)
        for form in wording.ALIAS:
            yield from (Alias(node) for [node] in self._slots(form, text, s=""))
        yield from self._both(text)
        yield from self._count(text)
        yield from self._compare(text)

    def _plain(self, text: str, one: Relation) -> Iterator[Query]:
        name = one.name
        for form in one.ask:
            yield from (Fact(name, node) for [node] in self._slots(form, text, s=one.of))
        for form in one.then:
            year = re.search(r"\b(\d{4})\b", text)
            if year:
                filled = form.replace("{y}", year[1])
                yield from (Then(name, node, int(year[1])) for [node] in self._slots(filled, text, s=one.of))
        for form in one.since:
            yield from (Since(name, node, who) for node, who in self._slots(form, text, s=one.of, o=one.to))
        for ahead, forms in ((False, one.after), (True, one.ahead)):
            for form in forms:
                slots = self._slots(form, text, s=one.of, o=one.to)
                yield from (Beside(name, node, who, ahead) for node, who in slots)
        for form in one.which:
            yield from (Which(name, node) for [node] in self._slots(form, text, o=one.to))
        for form in one.count:
            yield from (Count(name, node) for [node] in self._slots(form, text, o=one.to))

    def _both(self, text: str) -> Iterator[Query]:
        linked = [one for one in relations().values() if one.clause]
        for one, other in product(linked, linked):
            noun = one.noun or other.noun
            if other.of != one.of or not noun:
                continue
            for form in wording.both_forms(one):
                filled = form.format(noun=noun, first=one.clause.replace("{o}", "{s}"), second=other.clause)
                slots = self._slots(filled, text, s=one.to, o=other.to)
                yield from (Both(one.name, a, other.name, b) for a, b in slots)

    def _count(self, text: str) -> Iterator[Query]:
        year = re.search(r"\b(\d{4})\b", text)
        if not year:
            return
        for form in wording.BEFORE:
            for one, dated in product(relations().values(), relations().values()):
                if one.clause and one.nouns and dated.before and dated.of == one.of:
                    before = dated.before.format(y=year[1])
                    filled = form.format(nouns=one.nouns, which=wording.which(one), clause=one.clause, before=before)
                    slots = self._slots(filled, text, o=one.to)
                    yield from (Count(one.name, node, dated.name, int(year[1])) for [node] in slots)

    def _compare(self, text: str) -> Iterator[Query]:
        for one in relations().values():
            for more, word in (*((True, word) for word in one.more), *((False, word) for word in one.less)):
                if word not in text:
                    continue
                for form in wording.COMPARE:
                    filled = form.replace("{more}", word).replace("{first}", "{s}").replace("{second}", "{o}")
                    slots = self._slots(filled, text, s=one.of, o=one.of)
                    yield from (Compare(one.name, more, a, b) for a, b in slots)
                yield from self._compare_then(text, one, more, word)

    def _compare_then(self, text: str, one: Relation, more: bool, word: str) -> Iterator[Query]:
        if wording.THAT_ONE not in text:
            return
        for then in relations().values():
            for form, ask in product(wording.THAT, then.ask if then.of == one.of else ()):
                asked = ask.replace("the {s}", "{s}").replace("The {s}", "{s}").replace("{s}", wording.THAT_ONE)
                filled = form.replace("{more}", word).replace("{ask}", asked)
                filled = filled.replace("{first}", "{s}").replace("{second}", "{o}")
                slots = self._slots(filled, text, s=one.of, o=one.of)
                yield from (Compare(one.name, more, a, b, then.name) for a, b in slots)

    def _slots(self, form: str, text: str, **kinds: str) -> Iterator[tuple[Node, ...]]:
        """Yield what the slots of a wording may contain, in the order in which the slots are given."""
        for texts in _fits(form, text):
            options = [[node for node, kind in self.nodes(texts[slot]) if kinds[slot] in ("", kind)] for slot in kinds]
            yield from product(*options)

    def nodes(self, text: str) -> list[tuple[Node, str]]:
        """Return what a phrase may mean, with its kind; the phrase may lack its article."""
        if text not in self._nodes:
            forms = (text, f"the {text}", f"The {text[4:]}" if text.startswith("the ") else text)
            self._nodes[text] = list(dict.fromkeys(one for form in forms for one in self._phrase(form)))
        return self._nodes[text]

    def _phrase(self, text: str) -> Iterator[tuple[Node, str]]:
        if text in self.known:
            yield self.known[text]
        for before, after, relation in _phrases():
            if text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after):
                inner = text[len(before) : len(text) - len(after)]
                yield from (
                    (Of(relation.name, node), relation.to) for node, kind in self.nodes(inner) if kind == relation.of
                )


def _fits(form: str, text: str) -> Iterator[dict[str, str]]:
    """Yield every way in which a text fills a wording of one or two slots."""
    parts = re.split(r"\{([so])\}", form)
    if len(parts) == 3:
        before, slot, after = parts
        if _framed(text, before, after):
            yield {slot: text[len(before) : len(text) - len(after)]}
        return
    before, first, between, second, after = parts
    if not _framed(text, before, after):
        return
    rest, at = text[len(before) : len(text) - len(after)], 0
    while (at := rest.find(between, at)) >= 0:
        if at and at + len(between) < len(rest):
            yield {first: rest[:at], second: rest[at + len(between) :]}
        at += 1


def _framed(text: str, before: str, after: str) -> bool:
    return len(text) > len(before) + len(after) and text.startswith(before) and text.endswith(after)


@lru_cache(maxsize=1)
def _phrases() -> tuple[tuple[str, str, Relation], ...]:
    return tuple((*_halves(form), one) for one in relations().values() for form in one.np)


def _halves(form: str) -> tuple[str, str]:
    before, after = form.split("{s}")
    return before, after
