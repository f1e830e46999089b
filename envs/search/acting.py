"""``SearchTools``: what an agent can do that searches, within what an episode may cost."""

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
from .reading import PART_WORDS, Excerpt, excerpt, length, line, meant, named, parts, passages, snippet
from .retrieval.retriever import Retriever
from .telling import enclosed, finds, hit_line, left, page_text

MOST_HITS = 10
HITS = Annotated[int, pydantic.Field(ge=1, le=MOST_HITS)]
QUERY_CHARS, ANSWER_CHARS, CITED = 300, 2_000, 50


class SearchTools(ToolEnv[SearchTask]):
    """The tools of ``SearchEnv``, and what was done with them."""

    work: SearchTask | None = None
    engine: Retriever
    progress: Progress
    limits: Limits
    tags: bool
    """The agent writes tags: it can search and answer."""
    brief: bool
    """Nothing is told but what was found."""
    k: int
    """How many hits a search has that does not say."""
    snippet: int
    """Words of a page that a hit shows."""

    def offered(self) -> Sequence[Tool]:
        """All tools, or those that have a tag."""
        return [one for one in super().offered() if not self.tags or one.name in ("search", "answer")]

    @tool
    def search(self, query: str, k: HITS | None = None) -> str:
        """Search the corpus for words; the best pages are listed with their ids and some of their text.

        Args:
            query: words; operators and quotation marks have no meaning.
            k: how many pages, 1 to 10.
        """
        asked = " ".join(query.split())
        if not asked:
            raise ToolError("the query is empty; search for words")
        if len(asked) > QUERY_CHARS:
            raise ToolError(f"a query has at most {QUERY_CHARS} characters, not {len(asked):,}; search for fewer words")
        if len(self.progress.searched) >= self.limits.searches:
            raise ToolError(f"all {self.limits.searches} searches are used up; answer with what you have read")
        self._afford()
        wanted = self.k if k is None else k
        hits = self.engine.search([asked], wanted)[0]
        self.progress = replace(self.progress, searched=(*self.progress.searched, (asked, wanted)))
        lines = []
        for number, hit in enumerate(hits[:wanted], 1):
            if self._words_left() <= 0:
                lines.append(f"({len(hits) - number + 1} more were found, but the words are used up.)")
                break
            page = hit.document
            size = min(self.snippet, self._words_left())
            # Brief hits stay word for word what models were trained on.
            shown = self._show(page, snippet(page, asked, size, stops=self.brief))
            lines.append(hit_line(number, page.id, page.title, shown, brief=self.brief, tags=self.tags))
        return self._told("\n".join(lines) or f"Nothing was found for {line(clip(asked))!r}; try other words.")

    @tool
    def open(self, id: str, part: int = 1) -> str:
        """Open a page; a long one comes in parts.

        Args:
            id: as a search lists it.
            part: which part, from 1.
        """
        page = self._page(id)
        of = parts(page)
        if not 1 <= part <= of:
            raise ToolError(f"{named(page.id)} has the parts 1 to {of}; there is no part {quoted(part)}")
        self._afford()
        begin = (part - 1) * PART_WORDS
        shown = self._show(page, excerpt(page, begin, begin + min(PART_WORDS, self._words_left())))
        self.progress = replace(self.progress, opened=page.id)
        cut = min(PART_WORDS, length(page) - begin) > shown.words
        text = page_text(page.id, page.title, shown, part, of, brief=self.brief)
        return self._told(text + (" …\n(The rest is not shown: the words are used up.)" if cut else ""))

    @tool
    def find(self, text: str) -> str:
        """Find a text in the page that is open, and see what stands around it.

        Args:
            text: words in a row; case and spaces do not matter.
        """
        if self.progress.opened is None:
            raise ToolError("no page is open; open one first")
        if not text.strip() or len(text) > QUERY_CHARS:
            raise ToolError(f"look for 1 to {QUERY_CHARS} characters; got {len(text.strip()):,}")
        self._afford()
        page = self.progress.pages[self.progress.opened]
        found, count = passages(page, text)
        if not found:
            return self._told(f"{line(clip(text))!r} does not stand in {named(page.id)}.")
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
        """Answer the question. The task ends with that.

        Args:
            text: the answer, in as few words as can be.
            citations: the ids of the pages on which it rests.
        """
        if len(text) > ANSWER_CHARS:
            raise ToolError(
                f"an answer has at most {ANSWER_CHARS:,} characters, not {len(text):,}; say it in few words"
            )
        if citations is not None and len(citations) > CITED:
            raise ToolError(f"at most {CITED} pages are cited, not {len(citations):,}; name those that state the facts")
        cites = tuple(meant(one, self.progress.shown) or one for one in citations or ())
        self.progress = replace(self.progress, answer=Answer(text, cites))
        return "The task is over."

    # -- what may be shown ------------------------------------------------------------------------------------------

    def _words_left(self) -> int:
        return self.limits.words - self.progress.words

    def _afford(self) -> None:
        if self._words_left() <= 0:
            raise ToolError(f"all {self.limits.words:,} words are used up; answer with what you have read")

    def _show(self, page: Document, shown: Excerpt) -> Excerpt:
        """Remember that a stretch of a page is shown."""
        self.progress = self.progress.reading(page, shown, max(shown.words, 1))
        return shown

    def _told(self, text: str) -> str:
        enough = enclosed(text, tags=self.tags)
        return enough if self.brief else f"{enough}\n{left(self.limits, self.progress)}"

    def _page(self, id: str) -> Document:
        """A page by its id: one that was seen, or one that the engine or the corpus knows."""
        assert self.work is not None
        known = meant(id, self.progress.pages)
        page = self.work.corpus.get(id) if known is None else self.progress.pages[known]
        if page is None and not len(self.work.corpus):  # its pages are elsewhere
            try:
                page = self.engine.get(id)
            except UsageError:
                page = None  # this service can only search; what it has found can be opened
        if page is None:
            raise ToolError(
                f"there is no page {line(clip(id))!r}; open those that a search lists, by the id in brackets"
            )
        return page
