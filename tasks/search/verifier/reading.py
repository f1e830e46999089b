"""Parse pages of the fictional wiki: from the words alone to the facts that they state."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ....errors import TaskError
from ..document import Document
from ..wiki import prose
from ..wiki.names import words
from ..wiki.relations import KINDS, Relation, relations, relations_of

HERE = "§"
"""Placeholder for the page's own title while its sentences are parsed."""
SENTENCE = re.compile(r"(?<=\.)\s+")


@dataclass(frozen=True, slots=True)
class Held:
    """A term that a page states; without an end, it was still running when the page was written."""

    start: int
    end: int | None
    holder: str


@dataclass
class Read:
    """The content of a parsed page.

    Args:
        id: id of the page.
        about: title of the entity that it is about.
    """

    id: str
    about: str
    kind: str = ""
    sort: str = ""
    alias: str = ""
    year: int | None = None
    """Year of an earlier revision; ``None`` for other pages."""
    source: str = ""
    """Source that the page repeats; empty for other pages."""
    facts: dict[str, str] = field(default_factory=dict)
    terms: dict[str, list[Held]] = field(default_factory=lambda: defaultdict(list))
    none: dict[str, int] = field(default_factory=dict)
    """Year before which an office had no holder, by relation."""
    gaps: set[str] = field(default_factory=set)
    listed: tuple[str, str, tuple[str, ...]] | None = None
    """Relation, object and all subjects, if the page is a list."""

    @property
    def current(self) -> bool:
        """Whether the page states current facts and is reliable."""
        return self.year is None and not self.source


def read(page: Document) -> Read:
    """Parse a page.

    Raises:
        TaskError: a sentence is ambiguous.
    """
    listing = _listing(page)
    if listing is not None:
        return Read(page.id, "", listed=listing)
    sentences = SENTENCE.split(page.text)
    found = _headed(page, sentences)
    lead = next((i for i, one in enumerate(sentences[:3]) if _lead(found, one)), None)
    if lead is None:
        return Read(page.id, "")  # a page about the wiki itself
    for sentence in sentences[lead + 1 :]:
        _tell(found, sentence.replace(found.about, HERE))
    return found


def _headed(page: Document, sentences: list[str]) -> Read:
    """Return whose page it is, and whether it is a copy, an earlier revision or a quote of another source."""
    copied, old, quoted = (
        re.fullmatch(_pattern(one, "t", "y", "source"), sentences[0]) for one in (prose.COPY, prose.OLD, prose.QUOTE)
    )
    if copied:
        return Read(page.id, copied["t"])
    if old:
        return Read(page.id, old["t"], year=int(old["y"]))
    if quoted:
        return Read(page.id, quoted["t"], source=quoted["source"])
    return Read(page.id, page.title)


def _lead(found: Read, sentence: str) -> bool:
    """Parse the lead sentence, which says what the page is about."""
    for pattern in _leads():
        match = re.fullmatch(pattern, sentence)
        if match and match["t"] == found.about and match["sort"].split(" ", 1)[-1] in _sorts():
            found.sort = match["sort"].split(" ", 1)[-1]
            found.kind, found.alias = _sorts()[found.sort], match.groupdict().get("alias") or ""
            return True
    return False


def _tell(found: Read, sentence: str) -> None:
    """Add the facts of a sentence; a sentence without facts is filler."""
    some = [
        (match, relation, what)
        for part, pattern, relation, what in _sentences(found.kind)
        if part in sentence and (match := pattern.fullmatch(sentence))
    ]
    # Sentences about unknown facts use words that no name contains.
    some = [one for one in some if one[2] == "gap"] or some
    if len(some) > 1:
        raise TaskError(
            f"{sentence!r} can be read as {[(rel.name, what) for _, rel, what in some]}; reword one of them"
        )
    for match, relation, what in some:
        if what == "gap":
            found.gaps.add(relation.name)
        elif what == "says":
            found.facts[relation.name] = match["o"]
        elif what == "none":
            found.none[relation.name] = int(match["a"])
        else:
            end = int(match["b"]) if what == "past" else None
            found.terms[relation.name].append(Held(int(match["a"]), end, match["o"]))


def _listing(page: Document) -> tuple[str, str, tuple[str, ...]] | None:
    for name, pattern in _lists():
        title = pattern.fullmatch(page.title)
        if title is None:
            continue
        for form in prose.LISTED:
            before, after = form.split("{all}")
            match = re.search(re.escape(before) + "(.+?)" + re.escape(after), page.text)
            if match:
                return name, title["o"], tuple(re.split(", | and ", match[1]))
    return None


@lru_cache(maxsize=1024)
def _pattern(text: str, *slots: str, object_: str = ".+") -> str:
    """Return the regular expression of a wording; years are digits."""
    found = re.escape(text)
    for slot in slots:
        form = r"\d+" if slot in ("a", "b", "y") else object_ if slot == "o" else ".+"
        found = found.replace(re.escape("{" + slot + "}"), f"(?P<{slot}>{form})", 1)
    return found


@lru_cache(maxsize=1)
def _leads() -> tuple[str, ...]:
    return tuple(_pattern(one, "t", "alias", "sort") for one in (*prose.LEAD_TWICE, *prose.LEAD))


@lru_cache(maxsize=1)
def _sorts() -> dict[str, str]:
    return {sort: kind for kind in KINDS for sort in words()["sorts"][kind]}


@lru_cache(maxsize=1)
def _lists() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(_pattern(one.list, "o"))) for name, one in relations().items() if one.list)


@lru_cache(maxsize=16)
def _sentences(kind: str) -> tuple[tuple[str, re.Pattern[str], Relation, str], ...]:
    return tuple(_wordings(kind))


def _wordings(kind: str) -> Iterator[tuple[str, re.Pattern[str], Relation, str]]:
    """Yield the longest literal part, the pattern, the relation and the field of every sentence about a kind."""
    for relation in relations_of(kind):
        gaps = tuple(one.format(gap=relation.gap) for one in prose.GAP)
        for what, some in (
            ("says", relation.says),
            ("past", relation.past),
            ("now", relation.now),
            ("none", relation.none),
            ("gap", gaps),
        ):
            for text in some:
                own = prose.begin(text.replace("{s}", HERE)) if text[0] != "{" else text.replace("{s}", HERE)
                # Names start with a capital, numbers are digits, and other words contain neither.
                form = "[A-Z].+" if relation.linked else r"\d+" if relation.numeric else "[a-z ]+"
                part = max(re.split(r"\{\w\}", own), key=len)
                yield part, re.compile(_pattern(own, "o", "a", "b", object_=form)), relation, what
