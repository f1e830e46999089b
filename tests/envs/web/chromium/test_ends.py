"""Drivers die and hang: nothing is left, and the next episode begins."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from turnwise.envs.web.browser import Wanted
from turnwise.envs.web.chromium import launch
from turnwise.envs.web.chromium.loop import through
from turnwise.envs.web.chromium.pool import Pool
from turnwise.envs.web.chromium.processes import Process, driver_of
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


async def test_a_driver_that_was_killed_is_noticed_at_once(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=2)
    first = await opened(pool)
    await first.look(Wanted())
    await until(lambda: len(pool._ready) == 2, "no context was prepared")
    family = first.seat.chromium._family()
    assert len(family) > 4
    os.kill(driver(first.seat.chromium).pid, signal.SIGKILL)
    await until(lambda: not first.seat.chromium.alive, "a browser whose driver was killed is said to live")
    with pytest.raises(EnvironmentDiedError):
        await first.look(Wanted())
    seat = await through(pool.take(Known()))  # not one of those that wait in the dead one
    assert seat.chromium is not first.seat.chromium
    await until(lambda: not any(one.runs for one in family), "processes are left")
    await until(lambda: len(pool.browsers) == 1, "the dead browser is kept")


async def test_a_driver_that_cannot_be_watched_is_asked(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "driver_of", lambda pid: None)  # as where there is no /proc
    pool = pools(ready=0)
    first = await opened(pool)
    os.kill(driver(first.seat.chromium).pid, signal.SIGKILL)
    second = await opened(pool)
    assert second.seat.chromium is not first.seat.chromium
    assert pool.launched == 2


async def test_a_driver_that_hangs_is_ended_with_its_browser(
    pools: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "ENDING", 0.1)  # it would not answer in any time
    chromium = (await opened(pools(ready=0))).seat.chromium
    family = chromium._family()
    os.kill(driver(chromium).pid, signal.SIGSTOP)
    await through(chromium.close())
    await until(lambda: not any(one.runs for one in family), "processes are left")
