"""Hedged resets: a reset that takes longer than nearly all before gets a rival, and the first to finish is used.

Only resets are hedged ("The Tail at Scale", Dean and Barroso 2013): the same task begins in the same state everywhere.
A step is never sent twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..envs.messages import Observation
from ..tasks.spec import TaskSpec
from .episode_state import HostProvider
from .hosts import Host
from .recent import RecentSeconds

SHARE = 0.02
"""Largest share of resets that get a rival. When all become slow at once, more resets would make it worse."""


class ResetWatch:
    """Durations of the resets of one environment, creation included.

    Args:
        clock: function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._recent = RecentSeconds()
        self.started = self.hedged = self.won = 0
        """Resets so far, those that got a rival, and those that the rival won."""

    def note(self, seconds: float) -> None:
        """Note the duration of a reset that succeeded."""
        self._recent.note(seconds)

    def quantile(self, share: float) -> float | None:
        """Return a quantile of the recent durations; ``None`` while there are too few."""
        return self._recent.quantile(share) if self._recent.enough else None

    def claim(self) -> bool:
        """Claim a rival for one reset; return whether there is one left."""
        if self.hedged + 1 > SHARE * self.started:
            return False
        self.hedged += 1
        return True

    def metrics(self) -> Mapping[str, float]:
        """Return the numbers of resets, and median and 99th percentile of their seconds; nothing before the first."""
        if not self.started:
            return {}
        found = {"hedged": float(self.hedged), "won": float(self.won)}
        for name, share in (("seconds_p50", 0.5), ("seconds_p99", 0.99)):
            if (seconds := self.quantile(share)) is not None:
                found[name] = seconds
        return {f"resets/{name}": value for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class Opened:
    """An environment in its first state.

    Args:
        host: its host.
        answer: first observation, and the info of the reset.
    """

    host: Host
    answer: tuple[Observation, dict[str, Any]]


async def open_hedged(pool: HostProvider, task: TaskSpec, watch: ResetWatch) -> Opened:
    """Take an environment and reset it, with a rival if that takes longer than 99 of 100 resets.

    Args:
        pool: source of environments.
        task: task of the episode.
        watch: durations of resets so far.

    Raises:
        InfrastructureError: the reset failed, and its rival too, if it had one.
    """
    began = watch.clock()
    watch.started += 1
    tasks = [asyncio.create_task(_open(pool, task), name="reset")]
    try:
        if (delay := watch.quantile(0.99)) is not None:
            await asyncio.wait(tasks, timeout=delay)
            if not tasks[0].done() and watch.claim():
                tasks.append(asyncio.create_task(_open(pool, task), name="rival of a reset"))
        winner = await _first_good(tasks)
        watch.note(watch.clock() - began)
        watch.won += winner is not tasks[0]
        tasks.remove(winner)
    except BaseException:
        await asyncio.shield(_drop(pool, tasks))
        raise
    opened = winner.result()
    try:
        await asyncio.shield(_drop(pool, tasks))
    except BaseException:
        pool.give(opened.host, reusable=False)
        raise
    return opened


async def _open(pool: HostProvider, task: TaskSpec) -> Opened:
    host = await pool.take()
    try:
        return Opened(host, await host.reset(task))
    except BaseException:
        pool.give(host, reusable=False)
        raise


async def _first_good(tasks: list[asyncio.Task[Opened]]) -> asyncio.Task[Opened]:
    """Return the first task that succeeds, or else the first one, which then raises."""
    waiting = set(tasks)
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is None:
                return task
    tasks[0].result()
    raise AssertionError("unreachable: no task succeeded, so the first one raises")


async def _drop(pool: HostProvider, tasks: list[asyncio.Task[Opened]]) -> None:
    """Stop the others; an environment that one of them opened just then goes back, since none has acted on it."""
    for task in tasks:
        task.cancel()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(found, Opened):
            pool.give(found.host, reusable=True)
