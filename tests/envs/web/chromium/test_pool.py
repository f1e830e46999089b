"""Browsers die, grow and age; episodes in others go on, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from turnwise.envs.web.browser import Wanted
from turnwise.envs.web.chromium import pool as module
from turnwise.envs.web.chromium.browser import ChromiumBrowser, open_browser
from turnwise.envs.web.chromium.launch import NAMED, executable
from turnwise.envs.web.chromium.pool import Pool
from turnwise.envs.web.chromium.processes import below, memory
from turnwise.errors import EnvironmentDiedError, ToolError, UsageError

from .hostile import Hostile

HOME = "http://trap.test/"
MANY, MOST = 12, 96 * 2**20
"""Episodes, and bytes by which they may make Chromium grow."""
CHILD = """
import asyncio, sys, time
from turnwise.envs.web.chromium.browser import open_browser
from tests.envs.web.chromium.hostile import Hostile
browser = asyncio.run(open_browser(Hostile(), "http://trap.test/"))
print(browser.slot.chromium.pid, flush=True)
if sys.argv[1] == "wait":
    time.sleep(100)
"""


async def opened(pool: Pool) -> ChromiumBrowser:
    browser = await open_browser(Hostile(), HOME, pool)
    assert isinstance(browser, ChromiumBrowser)
    return browser


async def until(true: Callable[[], bool], why: str) -> None:
    """Wait for something that happens in the background."""
    for _ in range(2400):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(why)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("playwright")
    monkeypatch.setenv(NAMED, "/nowhere/chromium")
    with pytest.raises(UsageError, match=r"TURNWISE_CHROMIUM='/nowhere/chromium'.*apt-get install chromium"):
        executable()
    monkeypatch.delenv(NAMED)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="apt-get install chromium-headless-shell"):
        executable()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'turnwise\[web\]'"):
        executable()


async def test_a_start_that_never_ends_is_given_up_and_the_next_one_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = list[int]()

    async def hangs(port: int) -> Any:
        starts.append(port)
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "launch", hangs)
    monkeypatch.setattr(module, "LAUNCHING", 0.05)
    pool = Pool()
    try:
        async with asyncio.timeout(20):
            for tries in (1, 2):
                with pytest.raises(EnvironmentDiedError, match=r"Chromium did not start within 0.05 s"):
                    await pool.take(Hostile())
                assert len(starts) == tries
    finally:
        await pool.server.stop()


@pytest.mark.slow
async def test_a_browser_that_dies_takes_only_its_own_episodes(pools: Callable[..., Pool]) -> None:
    pool, other = pools(ready=1), pools(ready=0)
    first, second, elsewhere = await opened(pool), await opened(pool), await opened(other)
    os.kill(first.slot.chromium.pid, signal.SIGKILL)
    for one in (first, second):
        with pytest.raises(EnvironmentDiedError):
            await one.goto(f"{HOME}inside")
        with pytest.raises(EnvironmentDiedError):
            await one.look(Wanted())
        await one.close()
    await elsewhere.goto(f"{HOME}inside")
    third = await opened(pool)
    assert third.slot.chromium is not first.slot.chromium
    assert (await third.look(Wanted())).url == HOME
    await until(lambda: len(pool.browsers) == 1, "the dead browser is kept")


@pytest.mark.slow
@pytest.mark.shift
async def test_a_browser_is_replaced_after_so_many_contexts_and_ends_with_its_last(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=0, contexts=2)
    one, two, three = [await opened(pool) for _ in range(3)]
    assert one.slot.chromium is two.slot.chromium
    assert three.slot.chromium is not one.slot.chromium
    assert (await one.look(Wanted())).url == HOME, "an episode in a retired browser goes on"
    await one.close()
    await two.close()
    await until(lambda: pool.browsers == [three.slot.chromium], "a retired browser without episodes goes on")


@pytest.mark.slow
async def test_contexts_wait_for_episodes_and_are_closed_with_them(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=2)
    one = await opened(pool)
    await one.look(Wanted())
    await until(lambda: len(pool._ready) == 2, "no context was prepared")
    waiting = pool._ready[0]
    two = await opened(pool)
    assert two.slot is waiting
    await one.close()
    await one.close()
    with pytest.raises(ToolError, match="closed"):
        await one.goto(HOME)
    await until(lambda: one.slot.key not in pool.server.episodes, "the server knows an episode that is over")


@pytest.mark.slow
async def test_a_browser_that_nobody_has_any_more_is_closed(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=0)
    one, two = await opened(pool), await opened(pool)
    key = two.slot.key
    del two
    await until(lambda: key not in pool.server.episodes, "a browser that was forgotten is kept")
    assert (await one.look(Wanted())).url == HOME


@pytest.mark.slow
@pytest.mark.shift
async def test_many_episodes_do_not_grow(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=0)
    kept = await opened(pool)
    sizes = []
    for _ in range(MANY):
        one = await opened(pool)
        await one.look(Wanted())
        await pool_leaves(one)
        sizes.append(memory(kept.slot.chromium.pid))
    assert sizes[-1] - sizes[MANY // 3] < MOST, f"bytes after every episode: {sizes}"
    assert len(kept.slot.chromium.browser.contexts) == 1


async def pool_leaves(one: ChromiumBrowser) -> None:
    """Close a browser, and wait until it is."""
    await one.close()
    chromium = one.slot.chromium
    await until(lambda: len(chromium.browser.contexts) == chromium.open == 1, "a context is kept")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "wait"])
def test_nothing_is_left_when_the_process_ends_or_is_killed(how: str) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, how], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        family = below(process.pid) if how == "wait" else [pid]
        assert how == "end" or (pid in family and len(family) > 4)
        if how == "wait":
            process.kill()
        process.wait()
    asyncio.run(until(lambda: not any(map(memory, family)), "processes are left"))
