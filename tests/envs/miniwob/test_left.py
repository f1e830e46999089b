"""Abandoned windows are closed, and no waiting window keeps a browser from ending."""

from __future__ import annotations

import asyncio
import gc
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import turnwise as tw
from turnwise.envs.miniwob import browser
from turnwise.envs.miniwob.browser import MiniwobBrowser
from turnwise.envs.miniwob.chromium import Window
from turnwise.envs.miniwob.env import MiniwobEnv
from turnwise.envs.miniwob.loaded import loaded, window_for
from turnwise.envs.web.chromium.loop import LOOP
from turnwise.envs.web.chromium.pool import pool
from turnwise.tasks.miniwob.suite import MiniwobTask, id_of

from .around import opened, until

pytestmark = pytest.mark.slow

PAGE = "click-test-2"
TASK = MiniwobTask(PAGE, 3, "train")


@pytest.fixture(autouse=True)
def no_page_of_another_test() -> None:
    LOOP.wait(loaded().empty())


def key_of(window: Window) -> str:
    """By which the server knows a window that is open."""
    assert window._slot is not None
    return window._slot.key


def closed(key: str) -> None:
    """Wait until a window is."""
    until(lambda: key not in pool().server.episodes, "a window that nobody has stays open")


def test_an_environment_that_is_forgotten_closes_its_window() -> None:
    env = cast(MiniwobEnv, tw.make(id_of(PAGE)).unwrapped)
    env.reset(seed=1)
    key = key_of(env.browser.window)
    assert key in pool().server.episodes
    del env
    gc.collect()
    closed(key)


def test_a_window_that_comes_when_its_reset_is_being_cancelled_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, ready = [], threading.Event()

    async def heard(task: MiniwobTask, trace: Path | None) -> Window:
        window = await window_for(task, trace)
        keys.append(key_of(window))
        ready.set()
        return window

    async def ticks() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def busy() -> None:
        opening = asyncio.create_task(MiniwobBrowser.open(TASK))
        await asyncio.sleep(0)
        ready.wait(60)  # this loop does nothing meanwhile, as during a gradient step
        LOOP.wait(ticks())  # the other one has given the window back
        opening.cancel()
        await asyncio.wait({opening})
        assert opening.cancelled()

    monkeypatch.setattr(browser, "window_for", heard)
    asyncio.run(busy())
    gc.collect()
    closed(keys[0])


def test_a_window_whose_episode_is_cancelled_before_it_may_begin_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def over_there() -> str:
        window = await loaded().take(TASK.path)
        key = key_of(window)
        monkeypatch.setattr(pool(), "works", asyncio.Semaphore(0))  # others have all the room
        beginning = asyncio.create_task(window.begin(TASK))
        await asyncio.sleep(0)
        beginning.cancel()
        await asyncio.wait({beginning})
        return key

    closed(LOOP.wait(over_there()))


@pytest.mark.slow
@pytest.mark.shift
def test_pages_that_wait_keep_no_retired_browser_where_only_others_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(PAGE) as env:
        until(lambda: env.browser.window.path in loaded().waiting, "no page was made ready")
        (old,) = pool().browsers
    monkeypatch.setattr(pool(), "settings", replace(pool().settings, contexts=old.made))
    web = tw.make("turnwise/Web-v1")
    try:
        for seed in range(pool().settings.ready + 1):  # windows that were ready already are taken first
            web.reset(seed=seed)
        until(lambda: old not in pool().browsers, "pages that wait keep a browser that was retired")
        assert not loaded().waiting
    finally:
        web.close()
