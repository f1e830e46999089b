"""Laws of housekeeping: a thousand episodes without ``close`` leave nothing behind."""

from __future__ import annotations

import gc
import math
import os
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from ..background import LOOP
from .findings import Broken
from .harness import Harness
from .law import Law
from .trace import player

BYTES_PER_EPISODE = 64
BYTES_PER_STRETCH = 8_192
"""Growth below these is the interpreter's (free lists filling up), not the environment's."""
TURNS = 3
STRETCHES = 4
DOUBTS = 2
"""An apparent leak is measured again: an engine's helpers may have been busy all along."""
PATIENCE = 30
"""Tenths of a second in which files and threads may still be let go: a sandbox is ended by another thread."""
ROUNDS = 10
"""Every tenth episode gets a new instance; the one before is dropped without ``close``."""


def leaks_nothing(harness: Harness) -> None:
    """Threads, file descriptors and memory stay where they are while the same tasks are played again and again."""
    gc.collect()
    gc.freeze()  # each collection below would visit every object of the process again, and libraries have millions
    try:
        _measure(harness)
    finally:
        gc.unfreeze()


def _measure(harness: Harness) -> None:
    """Play the episodes, and raise ``Broken`` for what they leave behind."""
    episodes = max(harness.effort.leak_episodes, 4 * ROUNDS)
    _episodes(harness, min(50, episodes // 2))  # caches fill
    threads, files = _least(_threads), _least(_files)
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start(1)
    try:
        _episodes(harness, episodes // STRETCHES)
        before = tracemalloc.take_snapshot()
        # A leak grows in every stretch; a cache, or another thread of this process, in some.
        n = episodes // STRETCHES
        grown, allowed = math.inf, max(BYTES_PER_EPISODE, BYTES_PER_STRETCH / n)
        for _ in range(DOUBTS):
            grown = min(grown, *(_growth(harness, n, threads) for _ in range(STRETCHES)))
            if grown <= allowed:
                break
        leaks = grown > allowed
        blame = _blame(before) if leaks else ""
    finally:
        if not tracing:
            tracemalloc.stop()
    if left := _left(harness, episodes, _threads, threads):
        raise Broken(f"{left} threads are left after {2 * episodes} episodes", harness.few[0])
    if left := _left(harness, episodes, _files, files):
        raise Broken(f"{left} files are left open after {2 * episodes} episodes", harness.few[0])
    if leaks:
        raise Broken(f"memory grows by {grown:.0f} bytes an episode over {episodes} episodes{blame}", harness.few[0])


def _growth(harness: Harness, n: int, threads: int) -> float:
    """Bytes that each of ``n`` episodes leaves behind, on average."""
    before = _settled(threads)
    _episodes(harness, n)
    return (_settled(threads) - before) / n


def _settled(threads: int) -> int:
    """Bytes in use once the threads that end engines and sandboxes in the background have ended themselves."""
    gc.collect()
    _more(_threads, threads)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _episodes(harness: Harness, n: int) -> None:
    env, play = harness.make(), player("random")
    for i in range(n):
        if i % ROUNDS == 0:
            env = harness.make()
        harness.play(play, harness.few[i % len(harness.few)], env=env, turns=TURNS)


def _blame(before: tracemalloc.Snapshot) -> str:
    """The line that holds most of what has grown, without the library's own bookkeeping."""
    ignored = [tracemalloc.Filter(False, tracemalloc.__file__)]
    now = tracemalloc.take_snapshot().filter_traces(ignored)
    top = now.compare_to(before.filter_traces(ignored), "lineno")
    grown = max(top, key=lambda statistic: statistic.size_diff, default=None)
    if grown is None or not grown.traceback:
        return ""
    return f"; most of it was allocated at {grown.traceback[0].filename}:{grown.traceback[0].lineno}"


def _left(harness: Harness, episodes: int, count: Callable[[], int], before: int) -> int:
    """How many more there are than before, if as many episodes again add to it; a pool does not grow."""
    more = _more(count, before)
    if more <= 0:
        return 0
    _episodes(harness, episodes)
    again = _more(count, before)
    return again if again > more else 0


def _more(count: Callable[[], int], before: int) -> int:
    """Return how many more there are than before, after some seconds for cleanup in the background."""
    for _ in range(PATIENCE):
        if count() <= before:
            break
        time.sleep(0.1)
    return count() - before


def _least(count: Callable[[], int]) -> int:
    """How many there are at least within half a second: an engine that was just dropped still ends itself."""
    least = count()
    for _ in range(5):
        time.sleep(0.1)
        least = min(least, count())
    return least


def _threads() -> int:
    return sum(thread.name != LOOP.name for thread in threading.enumerate())


def _files() -> int:
    table = Path("/proc/self/fd")
    return len(os.listdir(table)) if table.exists() else 0


RESOURCE_LAWS = (
    Law("leaks_nothing", "episodes without close() leave no memory, thread or file behind", leaks_nothing),
)
"""Laws of housekeeping."""
