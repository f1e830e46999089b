"""Pages that were loaded before their episodes: these begin as others do; no page outlives its browser or fills it."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from turnwise.envs.miniwob.env import MiniwobEnv
from turnwise.envs.miniwob.loaded import EACH, loaded
from turnwise.envs.web.chromium.loop import LOOP
from turnwise.envs.web.chromium.pool import pool

from ...shifts import core_sample
from .around import opened, until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_page_of_another_test() -> None:
    LOOP.wait(loaded().empty())


def until_waiting(path: str) -> None:
    """Wait until a window with this page waits for an episode, as it does while an agent thinks."""
    until(lambda: path in loaded().waiting, f"no window with {path} was made ready")


def view(env: MiniwobEnv) -> Any:
    return env.browser.utterance, env.page.nodes


@pytest.mark.parametrize(
    "page",
    core_sample(["click-test-2", "click-pie", "count-shape", "flight.Alaska"], 1, key="page that waited"),
)
def test_an_episode_is_the_same_in_a_page_that_waited(page: str) -> None:
    with opened(page, seed=5) as env:
        first, path = view(env), env.browser.window.path
        env.reset(seed=6)
        other = view(env)
        for seed, seen in ((5, first), (6, other), (5, first)):
            until_waiting(path)
            env.reset(seed=seed)
            assert view(env) == seen, f"seed {seed} is another episode in a page that was loaded before"


def test_a_page_whose_browser_died_is_not_given_away() -> None:
    with opened("click-test-2") as env:
        until_waiting(env.browser.window.path)
        browsers = list(pool().browsers)
        for one in browsers:
            os.kill(one.pid, signal.SIGKILL)
        until(lambda: not any(one.alive for one in browsers), "a browser that was killed is said to live")
        env.reset(seed=1)
        assert env.page.nodes


def test_pages_wait_only_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.envs.miniwob.loaded.MOST", 3)
    for page in ("click-test", "click-test-2", "click-button", "click-link", "enter-text"):
        with opened(page) as env:
            env.reset(seed=1)
    waiting = loaded().waiting
    assert len(waiting) <= 3
    assert all(waiting.count(path) <= EACH for path in waiting)
