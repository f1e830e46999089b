"""``Fused``: several engines combined by the ranks of their pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ....errors import UsageError
from ....tasks.search.document import Document
from .retriever import Hit, Retriever

SMOOTHED = 60
"""Constant of reciprocal rank fusion, as in its paper (Cormack, Clarke and Büttcher, SIGIR 2009)."""


class Fused:
    """Reciprocal rank fusion: a page scores the sum of 1 / (60 + its rank) over the engines that find it.

    Scores of different engines cannot be compared, places can. Pages with equal sums stand as the first engine that
    finds them has them.

    Args:
        engines: over one corpus, such as ``Fts5`` and ``Dense``; they are ours to close.
        depth: the number of pages to request from each engine per page wanted; more lets a page win that both rank low.
        smoothed: the constant; larger ones make the first places count less.
    """

    def __init__(self, *engines: Retriever, depth: int = 4, smoothed: int = SMOOTHED) -> None:
        if len(engines) < 2 or depth < 1 or smoothed < 0:
            raise UsageError(
                f"fusion needs at least two engines and a depth of at least 1; got {len(engines)} at {depth}"
            )
        self._engines, self._depth, self._smoothed = engines, depth, smoothed

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best ``k`` pages for each query, best first; see ``Retriever.search``."""
        if k < 1:
            return [[] for _ in queries]
        lists = [engine.search(queries, max(k * self._depth, SMOOTHED)) for engine in self._engines]
        return [self._fuse(found)[:k] for found in zip(*lists, strict=True)]

    def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``, from the first engine that can open pages."""
        for engine in self._engines[:-1]:
            try:
                return engine.get(id)
            except UsageError:
                continue
        return self._engines[-1].get(id)

    def close(self) -> None:
        """Close all engines."""
        for engine in self._engines:
            engine.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # engines never change: copies of an environment share them

    def _fuse(self, found: Sequence[Sequence[Hit]]) -> list[Hit]:
        pages: dict[str, Document] = {}
        sums: dict[str, float] = {}
        for hits in found:
            for place, hit in enumerate(hits, 1):
                id = hit.document.id
                pages.setdefault(id, hit.document)
                sums[id] = sums.get(id, 0.0) + 1 / (self._smoothed + place)
        best = sorted(pages, key=lambda id: -sums[id])  # stable: equal sums stay as they were found
        return [Hit(pages[id], sums[id]) for id in best]
