"""Many episodes ask one engine: together where they can, once where they ask the same, and never for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from turnwise.envs.search.retrieval.batched import Batched
from turnwise.envs.search.retrieval.fts5 import Fts5
from turnwise.envs.search.retrieval.retriever import Hit
from turnwise.envs.search.retrieval.retriever_checks import PAGES
from turnwise.errors import InfrastructureError, UsageError
from turnwise.tasks.search.document import Corpus, Document


class Watched:
    """An engine that records its calls, and can be blocked or broken.

    Args:
        held: block every search until ``go`` is set.
        broken: raise in every search.
    """

    def __init__(self, held: bool = False, broken: bool = False) -> None:
        self.broken = broken
        self.go, self.started = threading.Event(), threading.Semaphore(0)
        if not held:
            self.go.set()
        self.batches: list[list[str]] = []
        self.most = self.now = 0
        self._lock = threading.Lock()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        with self._lock:
            self.batches.append(list(queries))
            self.now += 1
            self.most = max(self.most, self.now)
        self.started.release()
        assert self.go.wait(60), "nothing released this search"
        with self._lock:
            self.now -= 1
        if self.broken:
            raise InfrastructureError("gone")
        return [[Hit(Document(query, "", ""), float(k))] for query in queries]

    async def searching(self, count: int = 1) -> None:
        """Wait until so many more searches have started."""
        for _ in range(count):
            assert await asyncio.to_thread(self.started.acquire, timeout=60), "no search started"

    def get(self, id: str) -> Document | None:
        return Document(id, "", "")

    def close(self) -> None:
        pass


def first(hits: list[list[Hit]]) -> list[str]:
    return [one[0].document.id for one in hits]


async def test_each_gets_what_it_asked_for() -> None:
    engine = Watched()
    async with Batched(engine) as front:
        answers = await asyncio.gather(*(front.search([f"a{n}", f"b{n}"], 1 + n % 3) for n in range(100)))
    assert [first(one) for one in answers] == [[f"a{n}", f"b{n}"] for n in range(100)]
    assert [one[0][0].score for one in answers] == [1.0 + n % 3 for n in range(100)], "k was mixed up"
    assert len(engine.batches) < 20, "what is asked at the same moment is asked together"


async def test_the_same_is_asked_once() -> None:
    engine = Watched()
    async with Batched(engine) as front:
        await asyncio.gather(*(front.search(["x"], 3) for _ in range(50)))
        await front.search(["x", "x"], 3)
        assert engine.batches == [["x"]]
        assert (front.counts.asked, front.counts.joined, front.counts.remembered) == (52, 49, 2)
        await front.search(["x"], 4)
        assert len(engine.batches) == 2, "another k is another question"


async def test_only_so_many_are_remembered() -> None:
    engine = Watched()
    async with Batched(engine, remembered=2) as front:
        for query in ("a", "b", "a", "c", "a", "b"):
            await front.search([query], 1)
    assert engine.batches == [["a"], ["b"], ["c"], ["b"]], "the least recently used goes first"


async def test_batches_and_threads_are_bounded() -> None:
    engine = Watched(held=True)
    async with Batched(engine, batch=5, concurrent=3) as front:
        waiting = asyncio.gather(*(front.search([str(n)], 1) for n in range(100)))
        await engine.searching(3)
        engine.go.set()
        await waiting
    assert max(map(len, engine.batches)) <= 5
    assert engine.most == 3


async def test_what_is_answered_cannot_be_spoilt() -> None:
    async with Batched(Watched()) as front:
        (await front.search(["x"], 1))[0].clear()
        assert first(await front.search(["x"], 1)) == ["x"]


async def test_a_failure_is_everybodys_and_not_remembered() -> None:
    engine = Watched(broken=True)
    async with Batched(engine) as front:
        found = await asyncio.gather(*(front.search([name], 1) for name in "abc"), return_exceptions=True)
        assert all(isinstance(one, InfrastructureError) for one in found)
        engine.broken = False
        assert first(await front.search(["a"], 1)) == ["a"]


async def test_an_engine_with_too_few_answers_is_an_error_and_no_silence() -> None:
    class Short(Watched):
        def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
            return super().search(queries, k)[:1]

    async with Batched(Short(), concurrent=1) as front, asyncio.timeout(10):
        found = await asyncio.gather(*(front.search([name], 1) for name in "ab"), return_exceptions=True)
        assert [type(one) for one in found] == [ValueError, ValueError]
        assert first(await front.search(["b"], 1)) == ["b"], "the query is not stuck"


async def test_who_is_cancelled_leaves_others_alone() -> None:
    engine = Watched(held=True)
    async with Batched(engine) as front:
        one, other = (asyncio.ensure_future(front.search(["x"], 1)) for _ in range(2))
        await engine.searching()
        one.cancel()
        engine.go.set()
        assert first(await other) == ["x"]


async def test_a_failure_that_nobody_waits_for_is_quiet() -> None:
    engine = Watched(held=True, broken=True)
    async with Batched(engine, concurrent=1) as front:
        waiting = asyncio.ensure_future(front.search(["x"], 1))
        await engine.searching()
        waiting.cancel()
        engine.go.set()
        with pytest.raises(InfrastructureError, match="gone"):
            await front.search(["y"], 1)  # begins once the search for x has failed
    assert engine.batches == [["x"], ["y"]]


async def test_it_ends_while_it_is_asked() -> None:
    engine = Watched(held=True)
    front = Batched(engine, concurrent=1)
    waiting = [asyncio.ensure_future(front.search([str(n)], 1)) for n in range(5)]
    await engine.searching()
    await front.aclose()
    await front.aclose()
    ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    engine.go.set()
    assert all(isinstance(one, asyncio.CancelledError) for one in ended)
    with pytest.raises(UsageError, match="closed"):
        await front.search(["x"], 1)


async def test_it_finds_what_its_engine_finds() -> None:
    engine = Fts5(Corpus("batched", PAGES))
    queries = ["tower", "quartz twin", "", "Oda", "\ud800"]
    async with Batched(engine) as front:
        assert await front.search(queries, 4) == engine.search(queries, 4)
        assert await front.get("brandt") == PAGES[1]


def test_senseless_bounds_are_refused() -> None:
    for words in ({"batch": 0}, {"concurrent": 0}, {"remembered": -1}, {"characters": -1}):
        with pytest.raises(UsageError, match="at least"):
            Batched(Watched(), **words)


class Wordy(Watched):
    """An engine whose pages are long."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        super().search(queries, k)
        return [[Hit(Document(query, "", "x" * 99 * len(query)), 1.0)] for query in queries]


async def test_what_is_remembered_has_only_so_many_characters() -> None:
    engine = Wordy()
    async with Batched(engine, characters=250) as front:
        for query in ("a", "b", "a", "c", "a", "b"):
            await front.search([query], 1)
        assert engine.batches == [["a"], ["b"], ["c"], ["b"]], "the least recently used goes first"
        for query in ("long", "long", "a"):
            assert first(await front.search([query], 1)) == [query]
        assert engine.batches[4:] == [["long"], ["long"]], "what is too long is not kept, and nothing goes for it"


async def test_long_queries_count_among_what_is_remembered() -> None:
    async with Batched(Watched(), characters=1000) as front:
        for letter in "abc":
            await front.search([letter * 300], 1)  # the page's id has as many again
        await front.search(["a" * 300], 1)
        assert front.counts.remembered == 0
        await front.search(["a" * 300], 1)
        assert front.counts.remembered == 1
