"""``SearchTools``: the tools of a search environment, within an episode's budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import pydantic

from ...errors import ToolError, UsageError
from ...tasks.search.document import Document
from ...tasks.search.task import SearchTask
from ..messages import clip
from ..toolenv import ToolEnv
from ..tools import Tool, quoted, tool
from .progress import Answer, Limits, Progress
from .prompts import enclosed, finds, hit_line, left, page_text
from .reading import PART_WORDS, Excerpt, excerpt, length, line, meant, named, parts, passages, snippet
from .retrieval.retriever import Retriever

MOST_HITS = 10
HITS = Annotated[int, pydantic.Field(ge=1, le=MOST_HITS)]
QUERY_CHARS, ANSWER_CHARS, CITED = 300, 2_000, 50


class SearchTools(ToolEnv[SearchTask]):
    """The tools of ``SearchEnv``, and a record of their use."""

    work: SearchTask | None = None
    engine: Retriever
    progress: Progress
    limits: Limits
    tags: bool
    """Whether the agent writes tags; it can then only search and answer."""
    brief: bool
    """Whether observations contain only retrieved text."""
    k: int
    """Default number of hits of a search."""
    snippet: int
    """Words of a page that a hit shows."""

    def offered(self) -> Sequence[Tool]:
        """Return all tools, or those that have a tag."""
        return [one for one in super().offered() if not self.tags or one.name in ("search", "answer")]

    @tool
    def search(self, query: str, k: HITS | None = None) -> str:
        """Search the corpus. The best pages are listed with their IDs and excerpts.

        Args:
            query: search words; operators and quotation marks have no effect.
            k: number of pages to list, 1 to 10.
        """
        asked = " ".join(query.split())
        if not asked:
            raise ToolError("the query is empty; enter search words")
        if len(asked) > QUERY_CHARS:
            raise ToolError(f"a query can have at most {QUERY_CHARS} characters, not {len(asked):,}; use fewer words")
        if len(self.progress.searched) >= self.limits.searches:
            raise ToolError(f"you have used all {self.limits.searches} searches; answer from what you have read")
        self._afford()
        wanted = self.k if k is None else k
        hits = self.engine.search([asked], wanted)[0]
        self.progress = replace(self.progress, searched=(*self.progress.searched, (asked, wanted)))
        lines = []
        for number, hit in enumerate(hits[:wanted], 1):
            if self._words_left() <= 0:
                lines.append(f"({len(hits) - number + 1} more results are not shown because no words are left.)")
                break
            page = hit.document
            size = min(self.snippet, self._words_left())
            # Brief hits keep the format that models were trained on.
            shown = self._show(page, snippet(page, asked, size, stops=self.brief))
            lines.append(hit_line(number, page.id, page.title, shown, brief=self.brief, tags=self.tags))
        return self._told("\n".join(lines) or f"No results for {line(clip(asked))!r}; try other words.")

    @tool
    def open(self, id: str, part: int = 1) -> str:
        """Open a page. Long pages are split into parts.

        Args:
            id: ID of the page, as listed by search.
            part: number of the part, starting at 1.
        """
        page = self._page(id)
        of = parts(page)
        if not 1 <= part <= of:
            raise ToolError(f"{named(page.id)} has parts 1 to {of}; part {quoted(part)} does not exist")
        self._afford()
        begin = (part - 1) * PART_WORDS
        shown = self._show(page, excerpt(page, begin, begin + min(PART_WORDS, self._words_left())))
        self.progress = replace(self.progress, opened=page.id)
        cut = min(PART_WORDS, length(page) - begin) > shown.words
        text = page_text(page.id, page.title, shown, part, of, brief=self.brief)
        return self._told(text + (" …\n(The rest is not shown because no words are left.)" if cut else ""))

    @tool
    def find(self, text: str) -> str:
        """Find text in the open page, and show the words around it.

        Args:
            text: words to find, in order; case and spacing do not matter.
        """
        if self.progress.opened is None:
            raise ToolError("no page is open; open one first")
        if not text.strip() or len(text) > QUERY_CHARS:
            raise ToolError(f"the text must have 1 to {QUERY_CHARS} characters; got {len(text.strip()):,}")
        self._afford()
        page = self.progress.pages[self.progress.opened]
        found, count = passages(page, text)
        if not found:
            return self._told(f"{line(clip(text))!r} was not found in {named(page.id)}.")
        shown = []
        for one in found:
            if self._words_left() <= 0:
                break
            shown.append(
                self._show(page, excerpt(page, one.span[0], min(one.span[1], one.span[0] + self._words_left())))
            )
        return self._told(finds(shown, count))

    @tool(ends=True)
    def answer(self, text: str, citations: list[str] | None = None) -> str:
        """Answer the question. This ends the task.

        Args:
            text: the answer, in as few words as possible.
            citations: IDs of the pages that support the answer.
        """
        if len(text) > ANSWER_CHARS:
            raise ToolError(f"an answer can have at most {ANSWER_CHARS:,} characters, not {len(text):,}; shorten it")
        if citations is not None and len(citations) > CITED:
            raise ToolError(f"cite at most {CITED} pages, not {len(citations):,}; cite those that state the facts")
        cites = tuple(meant(one, self.progress.shown) or one for one in citations or ())
        self.progress = replace(self.progress, answer=Answer(text, cites))
        return "The task has ended."

    # -- what may be shown ------------------------------------------------------------------------------------------

    def _words_left(self) -> int:
        return self.limits.words - self.progress.words

    def _afford(self) -> None:
        if self._words_left() <= 0:
            raise ToolError(f"no words are left of your {self.limits.words:,}; answer from what you have read")

    def _show(self, page: Document, shown: Excerpt) -> Excerpt:
        """Record that a stretch of a page is shown."""
        self.progress = self.progress.reading(page, shown, max(shown.words, 1))
        return shown

    def _told(self, text: str) -> str:
        enough = enclosed(text, tags=self.tags)
        return enough if self.brief else f"{enough}\n{left(self.limits, self.progress)}"

    def _page(self, id: str) -> Document:
        """Return a page by its id, from the pages shown so far, the corpus or the engine."""
        assert self.work is not None
        known = meant(id, self.progress.pages)
        page = self.work.corpus.get(id) if known is None else self.progress.pages[known]
        if page is None and not len(self.work.corpus):  # the corpus is elsewhere
            try:
                page = self.engine.get(id)
            except UsageError:
                page = None  # this service can only search; pages that it has found can still be opened
        if page is None:
            raise ToolError(
                f"page {line(clip(id))!r} does not exist; open a page listed by search, using the ID in brackets"
            )
        return page
