"""Excerpts of pages for the agent, and the record of words shown: parts, snippets and passages, all without markup."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...tasks.search.document import Document, phrase
from .retrieval.tokenize import STOP_WORDS

PART_WORDS = 400
"""Words of one part; a longer page is opened in parts."""
SNIPPET_WORDS = 30
"""Words of a page in a list of hits; a shorter page is shown whole."""
PASSAGES = 5
"""Most places that ``find`` shows."""
TITLE_CHARS = 120
ID_HEAD, ID_TAIL, DIGITS = 64, 40, 8
"""For an id longer than a title: characters shown from its beginning and its end, and digits of its digest."""
LETTERS = 60
"""Longest word, in characters; longer ones are split, so that a page without spaces is cut, too."""

WORD = re.compile(rf"\S{{1,{LETTERS}}}")
MARKUP = re.compile(
    r"<(?=[\s/|]*(?:think|search|information|answer|action|summary|report|tool_call|tool_response|tools?|im_start|im_end"
    r"|system|user|assistant|ai|sys|end|start_of_turn|end_of_turn|bos|eos|pad|unk|s)\b)"
    r"|<(?=\s*[|｜][^<>]{1,80}[|｜]\s*>)"
    r"|\[(?=\s*/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\s*\])",
    re.IGNORECASE,
)
SPELT = {"<": "&lt;", "[": "&#91;"}
"""Replacements for the characters that start markup."""

Span = tuple[int, int]
"""A stretch of a page: the indices of its first word and of the word after its last."""


@dataclass(frozen=True)
class Excerpt:
    """A stretch of a page.

    Args:
        text: text of the stretch, with markup made harmless.
        span: word indices of the stretch.
        whole: whether it is the complete page.
    """

    text: str
    span: Span
    whole: bool

    @property
    def words(self) -> int:
        """Number of words."""
        return self.span[1] - self.span[0]


def harmless(text: str) -> str:
    """Return text in which nothing opens or closes a tag of a protocol, since retrieved text is data.

    ``<`` becomes ``&lt;`` before words that a protocol or chat template interprets, as in ``<answer>`` and
    ``<|im_end|>``, and ``[`` becomes ``&#91;`` in ``[INST]`` and the like. Everything else stays unchanged.
    """
    clean = text.replace("\x00", " ").encode("utf-8", "replace").decode()
    return MARKUP.sub(lambda found: SPELT[found.group()], clean)


def line(text: str, limit: int = TITLE_CHARS) -> str:
    """Return text as one harmless line, for titles."""
    flat = " ".join(harmless(text).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def named(id: str) -> str:
    """Return an id as shown to the agent: one harmless line, different for every id.

    A long id is cut in the middle and shows a digest there. An id whose line would be ambiguous gets the digest as a
    suffix.
    """
    flat = " ".join(harmless(id).split())
    if flat.replace("&lt;", "<").replace("&#91;", "[") == id and len(flat) <= TITLE_CHARS and "…" not in id:
        return flat
    digest = f"…{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:DIGITS]}"
    if len(flat) + len(digest) <= TITLE_CHARS:
        return f"{flat}{digest}"
    return harmless(f"{flat[:ID_HEAD]}{digest}…{flat[-ID_TAIL:]}")


def meant(said: str, ids: Iterable[str]) -> str | None:
    """Return the id that a written or shown form means; ``None`` if no id matches, or several do."""
    known = list(ids)
    if said in known:
        return said
    found = [id for id in known if named(id) == said.strip()]
    return found[0] if len(found) == 1 else None


def excerpt(page: Document, begin: int, end: int) -> Excerpt:
    """Return some words of a page, with its line breaks.

    Args:
        page: the page.
        begin: index of the first word.
        end: index after the last word.
    """
    found = list(WORD.finditer(page.text))
    begin, end = max(begin, 0), min(end, len(found))
    whole = begin == 0 and end == len(found)
    if begin >= end:
        return Excerpt("", (0, 0), whole)
    return Excerpt(harmless(page.text[found[begin].start() : found[end - 1].end()]), (begin, end), whole)


def length(page: Document) -> int:
    """Return the number of words of a page."""
    return sum(1 for _ in WORD.finditer(page.text))


def parts(page: Document, size: int = PART_WORDS) -> int:
    """Return the number of parts of a page."""
    return max(1, -(-length(page) // size))


def snippet(page: Document, query: str, size: int = SNIPPET_WORDS, *, stops: bool = False) -> Excerpt:
    """Return the stretch of a page with the most different words of a query; the earliest one of equals.

    Args:
        page: the page.
        query: words to look for.
        size: number of words to show.
        stops: whether stop words count; a query of stop words alone always counts them.
    """
    words = [_plain(found.group()) for found in WORD.finditer(page.text)]
    asked = {_plain(word) for word in query.split()} - {""}
    wanted = asked if stops else asked - STOP_WORDS or asked
    if len(words) <= size or not wanted:
        return excerpt(page, 0, size)
    places = [place for place, word in enumerate(words) if word in wanted]
    best, most, first, last = 0, 0, 0, 0
    met: Counter[str] = Counter()
    for place in places:  # stretches start in order, so that each word enters once and leaves once
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
    """Return the word spans of all occurrences of a text in a page, ignoring case and spacing."""
    starts = [found.start() for found in WORD.finditer(page.text)] if text.strip() else []
    return [
        (max(0, bisect_right(starts, match.start()) - 1), bisect_left(starts, match.end()))
        for match in (phrase(text).finditer(page.text) if starts else ())
    ]


def passages(page: Document, text: str, size: int = SNIPPET_WORDS) -> tuple[list[Excerpt], int]:
    """Return excerpts around a text's occurrences in a page, and the number of occurrences.

    Args:
        page: the page.
        text: text to look for.
        size: number of words to show around each occurrence; close occurrences share an excerpt.
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
"""Spans of words shown, by page id."""


def seen(shown: Shown, id: str, span: Span) -> dict[str, tuple[Span, ...]]:
    """Add a stretch of a page to the words shown; stretches that touch are merged."""
    spans = [*shown.get(id, ()), span]
    return {**shown, id: tuple(_merged(spans))}


def covers(spans: Iterable[Span], wanted: Span) -> bool:
    """Return whether one of several disjoint stretches contains another stretch completely."""
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
