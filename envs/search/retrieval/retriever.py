"""``Retriever``: the protocol of search engines: lexical, learned, or on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ....tasks.search.document import Document


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a search found.

    Args:
        document: the page.
        score: higher is better; comparable within one list of hits only.
    """

    document: Document
    score: float


class Retriever(Protocol):
    """A search engine over one corpus. Safe to be called from several threads.

    Nothing that is searched for raises: a query is words, never a language. Ties are broken by the corpus' order, so
    that the same query has the same hits in every process.
    """

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best ``k`` pages for each query, best first; fewer, or none, if fewer match.

        Raises:
            InfrastructureError: the engine has ended or does not answer.
        """

    def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``.

        Raises:
            UsageError: this engine cannot open pages.
        """

    def close(self) -> None:
        """Release its resources; may be called again."""
