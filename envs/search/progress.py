"""``Progress``: the state of a search as a value, and the budgets of the levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...tasks.search.document import Document
from .reading import Excerpt, Shown, covers, length, places, seen


@dataclass(frozen=True)
class Limits:
    """Budget of an episode.

    Args:
        turns: number of actions.
        searches: number of queries.
        words: number of words of page texts shown, without titles; about 1.3 tokens each in English.
    """

    turns: int
    searches: int
    words: int


LIMITS = {
    1: Limits(turns=16, searches=8, words=3_000),
    2: Limits(turns=24, searches=12, words=6_000),
    3: Limits(turns=32, searches=16, words=9_000),
    4: Limits(turns=64, searches=32, words=18_000),
    5: Limits(turns=128, searches=64, words=36_000),
}
"""Budget of each level: about four times the oracle's needs."""


@dataclass(frozen=True)
class Answer:
    """The answer that ends a search.

    Args:
        text: text of the answer.
        citations: ids of the pages cited for it.
    """

    text: str
    citations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """State of a search.

    Args:
        searched: queries, each with the requested number of hits.
        pages: pages of which anything was shown, by id.
        shown: stretches of words shown, by page id.
        opened: id of the open page, which ``find`` searches.
        words: number of retrieved words shown.
        answer: answer that ended the search; ``None`` before.
    """

    searched: tuple[tuple[str, int], ...] = ()
    pages: Mapping[str, Document] = field(default_factory=dict)
    shown: Shown = field(default_factory=dict)
    opened: str | None = None
    words: int = 0
    answer: Answer | None = None

    def reading(self, page: Document, shown: Excerpt, words: int) -> Progress:
        """Return the progress after a stretch of a page was shown.

        Args:
            page: the page.
            shown: the stretch of the page.
            words: the number of words to charge for it.
        """
        spans = seen(self.shown, page.id, shown.span) if shown.words else self.shown
        return replace(self, pages={**self.pages, page.id: page}, shown=spans, words=self.words + words)

    def has_read(self, id: str, passage: str | None = None) -> bool:
        """Return whether all of a page was shown, or the words of it that matter.

        Args:
            id: id of the page.
            passage: words that matter; any one of their occurrences in the page is enough.
        """
        page = self.pages.get(id)
        if page is None:
            return False
        spans = self.shown.get(id, ())
        if covers(spans, (0, length(page))):
            return True
        return any(covers(spans, place) for place in places(page, passage or ""))
