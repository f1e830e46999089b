"""Reads pages of the fictional wiki back: from the words alone to what they tell."""

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
"""Stands for the page's own title while its sentences are read."""
SENTENCE = re.compile(r"(?<=\.)\s+")


@dataclass(frozen=True, slots=True)
class Held:
    """A term that a page tells; without an end, it lasted when the page was written."""

    start: int
    end: int | None
    holder: str


@dataclass
class Read:
    """What a page tells.

    Args:
        id: of the page.
        about: the title of what it is about.
    """

    id: str
    about: str
    kind: str = ""
    sort: str = ""
    alias: str = ""
    year: int | None = None
    """Of an earlier revision."""
    source: str = ""
    """Whom it repeats."""
    facts: dict[str, str] = field(default_factory=dict)
    terms: dict[str, list[Held]] = field(default_factory=lambda: defaultdict(list))
    none: dict[str, int] = field(default_factory=dict)
    """The year before which nobody held something."""
    gaps: set[str] = field(default_factory=set)
    listed: tuple[str, str, tuple[str, ...]] | None = None
    """Relation, object and all subjects, if it is a list."""

    @property
    def current(self) -> bool:
        """Whether it says what is so now, and is to be believed."""
        return self.year is None and not self.source


def read(page: Document) -> Read:
    """What a page tells.

    Raises:
        TaskError: a sentence can be read in two ways.
    """
    listing = _listing(page)
    if listing is not None:
        return Read(page.id, "", listed=listing)
    sentences = SENTENCE.split(page.text)
    found = _headed(page, sentences)
    lead = next((i for i, one in enumerate(sentences[:3]) if _lead(found, one)), None)
    if lead is None:
        return Read(page.id, "")  # about the wiki itself
    for sentence in sentences[lead + 1 :]:
        _tell(found, sentence.replace(found.about, HERE))
    return found


def _headed(page: Document, sentences: list[str]) -> Read:
    """Whose page it is, and whether a copy, an earlier revision or the word of another."""
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
    """Read the first sentence, which says what it is about."""
    for pattern in _leads():
        told = re.fullmatch(pattern, sentence)
        if told and told["t"] == found.about and told["sort"].split(" ", 1)[-1] in _sorts():
            found.sort = told["sort"].split(" ", 1)[-1]
            found.kind, found.alias = _sorts()[found.sort], told.groupdict().get("alias") or ""
            return True
    return False


def _tell(found: Read, sentence: str) -> None:
    """Add what a sentence tells; one that tells nothing is filler."""
    some = [
        (told, relation, what)
        for part, pattern, relation, what in _sentences(found.kind)
        if part in sentence and (told := pattern.fullmatch(sentence))
    ]
    # What nobody knows is said in words that no name has.
    some = [one for one in some if one[2] == "gap"] or some
    if len(some) > 1:
        raise TaskError(
            f"{sentence!r} can be read as {[(rel.name, what) for _, rel, what in some]}; reword one of them"
        )
    for told, relation, what in some:
        if what == "gap":
            found.gaps.add(relation.name)
        elif what == "says":
            found.facts[relation.name] = told["o"]
        elif what == "none":
            found.none[relation.name] = int(told["a"])
        else:
            end = int(told["b"]) if what == "past" else None
            found.terms[relation.name].append(Held(int(told["a"]), end, told["o"]))


def _listing(page: Document) -> tuple[str, str, tuple[str, ...]] | None:
    for name, pattern in _lists():
        told = pattern.fullmatch(page.title)
        if told is None:
            continue
        for form in prose.LISTED:
            before, after = form.split("{all}")
            match = re.search(re.escape(before) + "(.+?)" + re.escape(after), page.text)
            if match:
                return name, told["o"], tuple(re.split(", | and ", match[1]))
    return None


@lru_cache(maxsize=1024)
def _pattern(text: str, *slots: str, object_: str = ".+") -> str:
    """A regular expression of a wording; years are digits."""
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
    """Every sentence that can tell something of a kind, after the longest part that is in all of its forms."""
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
                # Names begin with a capital, numbers are digits, and other words have none of both.
                form = "[A-Z].+" if relation.linked else r"\d+" if relation.numeric else "[a-z ]+"
                part = max(re.split(r"\{\w\}", own), key=len)
                yield part, re.compile(_pattern(own, "o", "a", "b", object_=form)), relation, what
