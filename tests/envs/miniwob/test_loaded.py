"""Pages that were loaded before their episodes: these begin as others do; no page outlives its browser or fills it."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from turnwise.envs.miniwob.env import MiniwobEnv
from turnwise.envs.miniwob.loaded import EACH, MOST, loaded
from turnwise.envs.web.chromium.loop import wait
from turnwise.envs.web.chromium.pool import pool

from .around import opened

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_page_of_another_test() -> None:
    wait(loaded().empty())


def until_waiting(path: str) -> None:
    """Until a window with this page waits for an episode, as it does while an agent thinks."""
    for _ in range(200):
        if path in loaded().waiting:
            return
        time.sleep(0.1)
    raise AssertionError(f"no window with {path} was made ready; there are {loaded().waiting}")


def view(env: MiniwobEnv) -> Any:
    return env.browser.utterance, env.page.nodes


@pytest.mark.parametrize("page", ["click-test-2", "count-shape", "click-pie", "flight.Alaska"])
def test_an_episode_is_the_same_in_a_page_that_waited(page: str) -> None:
    with opened(page, seed=5) as env:
        first, path = view(env), env.browser.window.path
        env.reset(seed=6)
        other = view(env)
        for seed, seen in ((5, first), (6, other), (5, first)):
            until_waiting(path)
            time.sleep(0.5)  # and some time later
            env.reset(seed=seed)
            assert view(env) == seen, f"seed {seed} is another episode in a page that was loaded before"


def test_a_page_whose_browser_died_is_not_given_away() -> None:
    with opened("click-test-2") as env:
        until_waiting(env.browser.window.path)
        for one in pool().browsers:
            os.kill(one.pid, signal.SIGKILL)
        time.sleep(1)
        env.reset(seed=1)
        assert env.page.nodes


def test_pages_wait_only_where_there_is_room() -> None:
    pages = ["click-test", "click-test-2", "click-button", "click-link", "enter-text", "focus-text", "click-tab"]
    for page in [*pages, "login-user", "click-option", "click-dialog", "enter-date", "click-shape"]:
        with opened(page) as env:
            env.reset(seed=1)
    waiting = loaded().waiting
    assert len(waiting) <= MOST
    assert all(waiting.count(path) <= EACH for path in waiting)
