"""``Progress``: how far a search has come, as a value; and what an episode of a level may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...tasks.search.document import Document
from .reading import Excerpt, Shown, covers, length, places, seen


@dataclass(frozen=True)
class Limits:
    """What an episode may cost.

    Args:
        turns: actions.
        searches: queries.
        words: of the texts of pages that are shown, without titles: about 1.3 tokens each in English.
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
"""By level: some four times what the oracle takes."""


@dataclass(frozen=True)
class Answer:
    """How an agent ended its search.

    Args:
        text: the answer.
        citations: the ids of pages that it names for it.
    """

    text: str
    citations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """How far a search has come.

    Args:
        searched: queries, with how many hits each was to have.
        pages: those of which something was shown, by id.
        shown: which of their words.
        opened: the id of the page that ``find`` looks into.
        words: of retrieved text that were shown.
        answer: that ended the search.
    """

    searched: tuple[tuple[str, int], ...] = ()
    pages: Mapping[str, Document] = field(default_factory=dict)
    shown: Shown = field(default_factory=dict)
    opened: str | None = None
    words: int = 0
    answer: Answer | None = None

    def reading(self, page: Document, shown: Excerpt, words: int) -> Progress:
        """After a stretch of a page was shown.

        Args:
            page: which one.
            shown: what of it.
            words: what that costs.
        """
        spans = seen(self.shown, page.id, shown.span) if shown.words else self.shown
        return replace(self, pages={**self.pages, page.id: page}, shown=spans, words=self.words + words)

    def has_read(self, id: str, passage: str | None = None) -> bool:
        """Whether all of a page was shown, or the words of it that matter.

        Args:
            id: of the page.
            passage: words that matter; every place where they stand in the page will do.
        """
        page = self.pages.get(id)
        if page is None:
            return False
        spans = self.shown.get(id, ())
        if covers(spans, (0, length(page))):
            return True
        return any(covers(spans, place) for place in places(page, passage or ""))
