"""When drivers die or hang, or a caller that waits for a window is canceled, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any, cast

import pytest

import turnwise as tw
from turnwise.envs.web.browser import Wanted
from turnwise.envs.web.chromium import launch, pool
from turnwise.envs.web.chromium.loop import LOOP
from turnwise.envs.web.chromium.pool import Pool
from turnwise.envs.web.chromium.processes import Process, driver_of
from turnwise.envs.web.env import WebEnv
from turnwise.errors import EnvironmentDiedError

from .hostile import Hostile
from .test_pool import opened, until

pytestmark = pytest.mark.slow


class Known(Hostile):
    """Sites to which a browser is known from the beginning, so that cookies are set."""

    def __init__(self) -> None:
        super().__init__()
        self.cookies = {"trap.test": "token"}


def driver(chromium: launch.Chromium) -> Process:
    """The driver of a browser."""
    found = driver_of(chromium.pid)
    assert found is not None
    return found


async def contexts(chromium: launch.Chromium) -> int:
    """How many there are, as Chromium itself counts."""
    listed: Any = await chromium.control.send("Target.getBrowserContexts")
    return len(listed["browserContextIds"])


async def empty(chromium: launch.Chromium) -> None:
    """Wait until nothing is left in a browser."""
    await until(lambda: chromium.open == 0, "a context is counted that nobody has")
    assert await contexts(chromium) == 0


# -- drivers --------------------------------------------------------------------------------------------------------


async def test_a_driver_that_was_killed_is_noticed_at_once(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=2)
    first = await opened(pool)
    await first.look(Wanted())
    await until(lambda: len(pool._ready) == 2, "no context was prepared")
    family = first.slot.chromium._family()
    assert len(family) > 4
    os.kill(driver(first.slot.chromium).pid, signal.SIGKILL)
    await until(lambda: not first.slot.chromium.alive, "a browser whose driver was killed is said to live")
    with pytest.raises(EnvironmentDiedError):
        await first.look(Wanted())
    slot = await LOOP.run(pool.take(Known()))  # not one of those that wait in the dead one
    assert slot.chromium is not first.slot.chromium
    await until(lambda: not any(one.alive for one in family), "processes are left")
    await until(lambda: len(pool.browsers) == 1, "the dead browser is kept")


async def test_a_driver_that_cannot_be_watched_is_asked(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "driver_of", lambda pid: None)  # as where there is no /proc
    pool = pools(ready=0)
    first = await opened(pool)
    os.kill(driver(first.slot.chromium).pid, signal.SIGKILL)
    second = await opened(pool)
    assert second.slot.chromium is not first.slot.chromium
    assert pool.launched == 2


async def test_a_driver_that_hangs_is_ended_with_its_browser(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "ENDING", 0.1)  # it would not answer in any time
    chromium = (await opened(pools(ready=0))).slot.chromium
    family = chromium._family()
    os.kill(driver(chromium).pid, signal.SIGSTOP)
    await LOOP.run(chromium.close())
    await until(lambda: not any(one.alive for one in family), "processes are left")


# -- cancelled ------------------------------------------------------------------------------------------------------


async def test_cancelled_while_its_cookies_are_set(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=1, contexts=1)

    async def over_there() -> None:
        pool.refill()
        await until(lambda: len(pool._ready) == 1, "no context was prepared")
        first = pool._ready[0].chromium
        taking = asyncio.create_task(pool.take(Known()))
        await asyncio.sleep(0)  # as far as it goes
        assert not pool._ready
        taking.cancel()
        await asyncio.wait({taking})
        assert taking.cancelled()
        await empty(first)
        second = (await pool.take(Known())).chromium
        await until(lambda: pool.browsers == [second], "a retired browser without episodes goes on")

    await LOOP.run(over_there())


@pytest.mark.parametrize("moment", ["context", "page"])
async def test_cancelled_while_its_window_is_made(pools: Callable[..., Pool], moment: str) -> None:
    pool = pools(ready=0, contexts=2)

    async def over_there() -> None:
        slot = await pool.take(Known())
        await pool.leave(slot)
        chromium, asked = slot.chromium, asyncio.Event()
        new_context = chromium.browser.new_context

        async def watched(**kwargs: Any) -> Any:
            if moment == "context":
                asked.set()
                return await new_context(**kwargs)
            context = await new_context(**kwargs)
            new_page = context.new_page

            async def paged() -> Any:
                asked.set()
                return await new_page()

            context.new_page = paged  # type: ignore[method-assign]
            return context

        chromium.browser.new_context = watched  # type: ignore[method-assign]
        taking = asyncio.create_task(pool.take(Known()))
        await asked.wait()
        taking.cancel()
        await asyncio.wait({taking})
        assert taking.cancelled()
        await empty(chromium)
        assert not pool.server.episodes
        third = (await pool.take(Known())).chromium
        await until(lambda: pool.browsers == [third], "a retired browser without episodes goes on")

    await LOOP.run(over_there())


async def test_cancelled_while_a_browser_starts_it_starts_for_the_next(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, real, starts = pools(ready=0), launch.launch, []

    async def over_there() -> None:
        starting = asyncio.Event()

        async def counted(port: int) -> launch.Chromium:
            starts.append(port)
            starting.set()
            return await real(port)

        monkeypatch.setattr(pool, "launch", counted)
        taking = asyncio.create_task(one.take(Known()))
        await starting.wait()
        taking.cancel()
        await asyncio.wait({taking})
        await one.take(Known())
        assert len(starts) == one.launched == 1

    await LOOP.run(over_there())


async def test_cancelled_while_it_leaves_it_leaves(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=0)

    async def over_there() -> None:
        slot = await pool.take(Known())
        leaving = asyncio.create_task(pool.leave(slot))
        await asyncio.sleep(0)  # as far as it goes
        leaving.cancel()
        await asyncio.wait({leaving})
        await empty(slot.chromium)

    await LOOP.run(over_there())


# -- environments ---------------------------------------------------------------------------------------------------


async def test_an_environment_that_is_closed_closes_its_window() -> None:
    env = tw.make("turnwise/Web-v1")
    env.reset(seed=1)
    browser: Any = cast(WebEnv, env.unwrapped).browser
    key = browser.slot.key
    assert key in pool.pool().server.episodes
    env.close()
    env.close()
    await until(lambda: key not in pool.pool().server.episodes, "the window of a closed environment stays open")
