"""What an agent is shown of a page, and what is remembered of that: parts, snippets, passages; none of it is markup."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...tasks.search.document import Document, phrase
from .retrieval.words import STOP_WORDS

PART_WORDS = 400
"""A longer page is opened in parts of as many words."""
SNIPPET_WORDS = 30
"""Of a page in a list of hits; a shorter page is shown whole."""
PASSAGES = 5
"""How many places ``find`` shows."""
TITLE_CHARS = 120
ID_HEAD, ID_TAIL, DIGITS = 64, 40, 8
"""Of an id with more characters than a title: how many are shown from its ends, and how many digits of its digest."""
LETTERS = 60
"""No word is shown with more: a page without spaces is cut, too."""

WORD = re.compile(rf"\S{{1,{LETTERS}}}")
MARKUP = re.compile(
    r"<(?=[\s/|]*(?:think|search|information|answer|action|summary|report|tool_call|tool_response|tools?|im_start|im_end"
    r"|system|user|assistant|ai|sys|end|start_of_turn|end_of_turn|bos|eos|pad|unk|s)\b)"
    r"|<(?=\s*[|｜][^<>]{1,80}[|｜]\s*>)"
    r"|\[(?=\s*/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\s*\])",
    re.IGNORECASE,
)
SPELT = {"<": "&lt;", "[": "&#91;"}
"""What stands for the sign that begins markup."""

Span = tuple[int, int]
"""The words of a page from one number up to another."""


@dataclass(frozen=True)
class Excerpt:
    """A stretch of a page.

    Args:
        text: as it is shown.
        span: which words of the page it is.
        whole: it is all of the page.
    """

    text: str
    span: Span
    whole: bool

    @property
    def words(self) -> int:
        """How many words it has."""
        return self.span[1] - self.span[0]


def harmless(text: str) -> str:
    """Text in which nothing opens or closes a tag of a protocol: what is retrieved is data.

    ``<`` becomes ``&lt;`` before the words that some protocol or chat template reads, as in ``<answer>`` and
    ``<|im_end|>``, and ``[`` becomes ``&#91;`` in ``[INST]`` and its like; all else stays as it is.
    """
    clean = text.replace("\x00", " ").encode("utf-8", "replace").decode()
    return MARKUP.sub(lambda found: SPELT[found.group()], clean)


def line(text: str, limit: int = TITLE_CHARS) -> str:
    """Text as one harmless line: for titles."""
    flat = " ".join(harmless(text).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def named(id: str) -> str:
    """An id as it is shown: one harmless line, and a different one for every id.

    A long id is cut in the middle, where a digest of it stands; an id that its line does not tell apart from others has
    the digest behind it.
    """
    flat = " ".join(harmless(id).split())
    if flat.replace("&lt;", "<").replace("&#91;", "[") == id and len(flat) <= TITLE_CHARS and "…" not in id:
        return flat
    digest = f"…{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:DIGITS]}"
    if len(flat) + len(digest) <= TITLE_CHARS:
        return f"{flat}{digest}"
    return harmless(f"{flat[:ID_HEAD]}{digest}…{flat[-ID_TAIL:]}")


def meant(said: str, ids: Iterable[str]) -> str | None:
    """Which of some ids is meant by one as it is written, or as it is shown; ``None`` if none is, or several are."""
    known = list(ids)
    if said in known:
        return said
    found = [id for id in known if named(id) == said.strip()]
    return found[0] if len(found) == 1 else None


def excerpt(page: Document, begin: int, end: int) -> Excerpt:
    """Some words of a page, with its line breaks.

    Args:
        page: which one.
        begin: the first word, from 0.
        end: the word after the last.
    """
    found = list(WORD.finditer(page.text))
    begin, end = max(begin, 0), min(end, len(found))
    whole = begin == 0 and end == len(found)
    if begin >= end:
        return Excerpt("", (0, 0), whole)
    return Excerpt(harmless(page.text[found[begin].start() : found[end - 1].end()]), (begin, end), whole)


def length(page: Document) -> int:
    """How many words a page has."""
    return sum(1 for _ in WORD.finditer(page.text))


def parts(page: Document, size: int = PART_WORDS) -> int:
    """In how many parts a page is opened."""
    return max(1, -(-length(page) // size))


def snippet(page: Document, query: str, size: int = SNIPPET_WORDS, *, stops: bool = False) -> Excerpt:
    """The stretch of a page in which most different words of a query stand; the first of equals, from its beginning.

    Args:
        page: which one.
        query: words.
        size: how many words are shown.
        stops: stop words count, too; without that only in a query of nothing else.
    """
    words = [_plain(found.group()) for found in WORD.finditer(page.text)]
    asked = {_plain(word) for word in query.split()} - {""}
    wanted = asked if stops else asked - STOP_WORDS or asked
    if len(words) <= size or not wanted:
        return excerpt(page, 0, size)
    places = [place for place, word in enumerate(words) if word in wanted]
    best, most, first, last = 0, 0, 0, 0
    met: Counter[str] = Counter()
    for place in places:  # whose stretches begin in order, so that each word comes in once and goes out once
        begin = max(0, min(place - size // 4, len(words) - size))
        while last < len(places) and places[last] < begin + size:
            met[words[places[last]]] += 1
            last += 1
        while places[first] < begin:
            gone = words[places[first]]
            met[gone] -= 1
            if not met[gone]:
                del met[gone]
            first += 1
        if len(met) > most:
            best, most = begin, len(met)
    return excerpt(page, best, best + size)


def places(page: Document, text: str) -> list[Span]:
    """The words of a page that a text stands in, whatever its case and spaces, at every place where it does."""
    starts = [found.start() for found in WORD.finditer(page.text)] if text.strip() else []
    return [
        (max(0, bisect_right(starts, match.start()) - 1), bisect_left(starts, match.end()))
        for match in (phrase(text).finditer(page.text) if starts else ())
    ]


def passages(page: Document, text: str, size: int = SNIPPET_WORDS) -> tuple[list[Excerpt], int]:
    """Where a text stands in a page, and how often.

    Args:
        page: which one.
        text: what is looked for.
        size: how many words are shown around each place; places that lie together are shown as one.
    """
    found = places(page, text)
    spans: list[Span] = []
    for first, last in found:
        begin, end = max(0, first - size // 2), last + size // 2
        if spans and begin <= spans[-1][1] and end - spans[-1][0] <= 3 * size:
            spans[-1] = (spans[-1][0], end)
        elif len(spans) == PASSAGES:
            break
        elif not spans or end > spans[-1][1]:
            begin = max(begin, spans[-1][1] if spans else 0)
            spans.append((begin, min(end, begin + 3 * size)))
    return [excerpt(page, begin, end) for begin, end in spans], len(found)


Shown = Mapping[str, tuple[Span, ...]]
"""Which words of which pages were shown."""


def seen(shown: Shown, id: str, span: Span) -> dict[str, tuple[Span, ...]]:
    """What was shown, and one more stretch; stretches that touch are one."""
    spans = [*shown.get(id, ()), span]
    return {**shown, id: tuple(_merged(spans))}


def covers(spans: Iterable[Span], wanted: Span) -> bool:
    """Whether one of some stretches, which do not touch, holds all of another."""
    return any(begin <= wanted[0] and wanted[1] <= end for begin, end in spans)


def _merged(spans: Sequence[Span]) -> Iterable[Span]:
    begin, end = None, 0
    for one in sorted(spans):
        if begin is None or one[0] > end:
            if begin is not None:
                yield begin, end
            begin, end = one
        else:
            end = max(end, one[1])
    if begin is not None:
        yield begin, end


def _plain(word: str) -> str:
    return re.sub(r"\W+", "", word).casefold()
