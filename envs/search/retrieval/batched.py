"""``Batched``: one engine for many episodes in one event loop, with as few calls as possible."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from ....errors import UsageError
from ....tasks.search.document import Document
from .retriever import Hit, Retriever

Key = tuple[str, int]
"""A query, and the number of pages to find."""


@dataclass
class Counts:
    """Counts of queries, for reports.

    Args:
        asked: queries.
        remembered: the number of these that memory answered.
        joined: the number of these that waited for an equal search.
        searches: calls of the engine.
    """

    asked: int = 0
    remembered: int = 0
    joined: int = 0
    searches: int = 0


class Batched:
    """Combine concurrent queries into one ``search``, and cache the results.

    Searches run in a limited number of threads. Queries that arrive while all are busy go together into the next
    searches. If the engine raises, all queries of its batch raise, and nothing is cached. Use it in one event loop.

    Args:
        engine: the engine that searches.
        remembered: answers that are kept; the least recently used go first.
        characters: the limit on the characters of all cached queries and pages; a longer answer is not cached.
        batch: queries in one search, at most.
        concurrent: searches at a time.
    """

    def __init__(
        self,
        engine: Retriever,
        *,
        remembered: int = 16_384,
        characters: int = 32_000_000,
        batch: int = 64,
        concurrent: int = 4,
    ) -> None:
        if min(batch, concurrent) < 1 or min(remembered, characters) < 0:
            got = f"{batch}, {concurrent}, {remembered} and {characters}"
            raise UsageError(
                f"batch and concurrent must be at least 1, remembered and characters at least 0; got {got}"
            )
        self._engine, self._most, self._batch, self._concurrent = engine, remembered, batch, concurrent
        self._threads = ThreadPoolExecutor(concurrent, thread_name_prefix="turnwise-search")
        self._found: OrderedDict[Key, tuple[Hit, ...]] = OrderedDict()
        self._characters, self._held = characters, 0
        self._asked: dict[Key, asyncio.Future[tuple[Hit, ...]]] = {}
        self._waiting: list[Key] = []
        self._running: set[asyncio.Task[None]] = set()
        self._due = self._closed = False
        self.counts = Counts()

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the best ``k`` pages for each query, as the engine finds them.

        Raises:
            InfrastructureError: the engine has ended or does not answer.
            UsageError: this object is closed.
        """
        if self._closed:
            raise UsageError("this retriever was closed; create another one to search")
        asked = [self._ask((query, k)) for query in queries]
        # Who is cancelled leaves alone what others wait for.
        return [list(one if isinstance(one, tuple) else await asyncio.shield(one)) for one in asked]

    async def get(self, id: str) -> Document | None:
        """Return the page with an id, or ``None``; see ``Retriever.get``."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._engine.get, id)

    async def aclose(self) -> None:
        """Cancel running searches; the engine stays open, since its owner closes it."""
        self._closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for future in self._asked.values():
            future.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def _ask(self, key: Key) -> tuple[Hit, ...] | asyncio.Future[tuple[Hit, ...]]:
        self.counts.asked += 1
        if key in self._found:
            self.counts.remembered += 1
            self._found.move_to_end(key)
            return self._found[key]
        if key in self._asked:
            self.counts.joined += 1
            return self._asked[key]
        loop = asyncio.get_running_loop()
        self._asked[key] = loop.create_future()
        self._waiting.append(key)
        if not self._due:
            self._due = True
            loop.call_soon(self._send)  # after all tasks that are ready now have asked
        return self._asked[key]

    def _send(self) -> None:
        self._due = False
        while self._waiting and len(self._running) < self._concurrent and not self._closed:
            k = self._waiting[0][1]
            alike = [key for key in self._waiting if key[1] == k]
            # Shared between the threads that are free, or one would have everything and the others nothing.
            free = self._concurrent - len(self._running)
            chosen = alike[: min(self._batch, -(-len(alike) // free))]
            taken = set(chosen)
            self._waiting = [key for key in self._waiting if key not in taken]
            task = asyncio.ensure_future(self._search(chosen, k))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._send()

    async def _search(self, keys: Sequence[Key], k: int) -> None:
        self.counts.searches += 1
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads, self._engine.search, [query for query, _ in keys], k)
            answers = [(key, tuple(hits)) for key, hits in zip(keys, found, strict=True)]  # an engine may be wrong
        except Exception as error:
            for key in keys:
                future = self._asked.pop(key)
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # all who asked may have been cancelled
            return
        for key, hits in answers:
            future = self._asked.pop(key)
            if not future.done():
                future.set_result(hits)
            self._remember(key, hits)

    def _remember(self, key: Key, hits: tuple[Hit, ...]) -> None:
        if _size(key, hits) > self._characters:
            return  # or everything else would be forgotten for it
        self._found[key] = hits
        self._held += _size(key, hits)
        while len(self._found) > self._most or self._held > self._characters:
            self._held -= _size(*self._found.popitem(last=False))


def _size(key: Key, hits: tuple[Hit, ...]) -> int:
    return len(key[0]) + sum(one.document.characters for one in hits)
