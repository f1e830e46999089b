"""A slow reset gets one rival; the first wins, the other leaves nothing behind, and a step is never hedged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.scripted import OracleAgent
from turnwise.envs.registry import make
from turnwise.errors import EnvironmentFailedError
from turnwise.rollouts.episode import Outcome
from turnwise.rollouts.hedging import SHARE, ResetWatch, open_hedged
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.rollouts.recent import ENOUGH
from turnwise.rollouts.runner import run_episodes

ENV = "turnwise/Maze-v0"
TASK: Any = object()


class FakeHost:
    """A host whose reset does what a test says."""

    def __init__(self, reset: Callable[[], Any]) -> None:
        self._reset = reset

    async def reset(self, task: Any) -> Any:
        await self._reset()
        return f"{id(self)}", {}


class FakePool:
    """A pool that lends prepared hosts, and notes how they come back."""

    queues = False

    def __init__(self, *resets: Callable[[], Any]) -> None:
        self.hosts = [FakeHost(reset) for reset in resets]
        self.lent = 0
        self.back: dict[int, bool] = {}

    async def take(self) -> Any:
        self.lent += 1
        return self.hosts[self.lent - 1]

    def give(self, host: Any, *, reusable: bool) -> None:
        self.back[self.hosts.index(host)] = reusable


async def at_once() -> None:
    """Reset at once."""


async def never() -> None:
    await asyncio.Event().wait()


async def soon() -> None:
    await asyncio.sleep(0.05)


async def fail() -> None:
    raise EnvironmentFailedError("it broke")


def watch(seconds: float = 0.001, started: int = 1000) -> ResetWatch:
    """A watch that has seen enough."""
    found = ResetWatch()
    found.started = started
    for _ in range(ENOUGH):
        found.note(seconds)
    return found


async def opened(pool: FakePool, seen: ResetWatch) -> int:
    """Number of the host that won."""
    found = await asyncio.wait_for(open_hedged(pool, TASK, seen), 30)
    return pool.hosts.index(found.host)  # type: ignore[arg-type]


async def test_a_reset_that_hangs_is_replaced_by_its_rival() -> None:
    pool, seen = FakePool(never, at_once), watch()
    assert await opened(pool, seen) == 1
    assert pool.back == {0: False}, "the one that hangs must not be lent again"
    assert (seen.hedged, seen.won) == (1, 1)


async def test_a_reset_that_ends_first_wins_against_its_rival() -> None:
    pool, seen = FakePool(soon, never), watch()
    assert await opened(pool, seen) == 0
    assert pool.back == {1: False}
    assert (seen.hedged, seen.won) == (1, 0)


async def test_an_environment_that_loses_by_a_moment_is_kept() -> None:
    released = asyncio.Event()
    pool, seen = FakePool(released.wait, released.wait), watch()
    opening = asyncio.create_task(opened(pool, seen))
    while pool.lent < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    released.set()
    assert await opening == 0
    assert pool.back == {1: True}, "nothing has acted on it"


async def test_a_quick_reset_has_no_rival() -> None:
    pool, seen = FakePool(at_once, at_once), watch(10.0)
    assert await opened(pool, seen) == 0
    assert pool.lent == 1


async def test_a_failure_of_one_of_two_is_none() -> None:
    async def late_failure() -> None:
        await soon()
        await fail()

    pool = FakePool(late_failure, soon)
    assert await opened(pool, watch()) == 1


@pytest.mark.parametrize("resets", [(fail,), (soon, fail)])
async def test_failures_of_all_are_raised(resets: tuple[Callable[[], Any], ...]) -> None:
    async def late_failure() -> None:
        await soon()
        await fail()

    pool = FakePool(late_failure if len(resets) > 1 else fail, *resets[1:])
    with pytest.raises(EnvironmentFailedError, match="it broke"):
        await opened(pool, watch())
    assert set(pool.back.values()) == {False}
    assert len(pool.back) == len(resets)


async def test_a_cancelled_reset_leaves_nothing_lent() -> None:
    pool = FakePool(never, never)
    opening = asyncio.create_task(opened(pool, watch()))
    while pool.lent < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert pool.back == {0: False, 1: False}


def test_when_all_resets_become_slow_few_get_rivals() -> None:
    seen = watch(started=0)
    claimed = 0
    for _ in range(1000):
        seen.started += 1
        claimed += seen.claim()
    assert claimed == SHARE * 1000


def test_too_few_resets_say_nothing() -> None:
    seen = ResetWatch()
    for _ in range(ENOUGH - 1):
        seen.note(1.0)
    assert seen.quantile(0.99) is None
    seen.note(5.0)
    assert seen.quantile(0.99) == 1.0
    assert seen.quantile(1.0) == 5.0


async def test_a_run_with_hedged_resets_plays_the_same_episodes_and_hedges_no_step() -> None:
    """Every hundredth reset hangs until the run ends; a rival starts each such episode."""
    over, lock, counts = threading.Event(), threading.Lock(), {"resets": 0, "steps": 0}
    inner = make(ENV)

    class Sticky(type(inner.unwrapped)):  # type: ignore[misc]
        def start(self, *arguments: Any, **named: Any) -> Any:
            with lock:
                counts["resets"] += 1
                hangs = counts["resets"] > ENOUGH and counts["resets"] % 100 == 0
            if hangs:
                over.wait(60)
            return super().start(*arguments, **named)

        def act(self, *arguments: Any, **named: Any) -> Any:
            with lock:
                counts["steps"] += 1
            return super().act(*arguments, **named)

    family = inner.get_wrapper_attr("tasks")()
    inner.close()
    tasks: list[tw.TaskSpec] = [family.spec(seed, level=1) for seed in range(250)]
    options = RunOptions(concurrency=8, hedge_resets=True, isolation="thread", retries=0)
    pool = EnvPool.of(Sticky, isolation="thread")
    async with pool:
        found = [each async for each in run_episodes(pool, OracleAgent(), tasks, options=options)]
        hedged, won = pool.resets.hedged, pool.resets.won
        over.set()
    assert len({each.episode_id for each in found}) == 250
    assert {each.outcome for each in found} == {Outcome.COMPLETED}
    assert counts["steps"] == sum(len(each.turns) for each in found), "a step was sent twice"
    assert 1 <= won <= hedged <= SHARE * 250
    assert pool.counters["resets/won"] == won
