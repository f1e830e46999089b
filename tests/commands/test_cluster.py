"""``turnwise cluster``: bad input in one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def test_bad_input_is_one_line(run: Run) -> None:
    run("cluster", "chekc").refused("unknown action: turnwise cluster chekc", "check")
    run("cluster", "check", "rollouts.workers=2").refused("name one with --config")
    run("cluster", "check", "--config", "loop-mazes").refused("there is no configuration 'loop-mazes'", "loop-maze")


@pytest.mark.slow
def test_a_cluster_that_is_not_there(run: Run) -> None:
    pytest.importorskip("ray", reason="turnwise[ray] is not installed")
    run("cluster", "check", "--address", "127.0.0.1:1").refused("there is no Ray cluster at '127.0.0.1:1'")


def test_without_ray_the_message_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    run("cluster", "check").refused("turnwise cluster check needs Ray: pip install 'turnwise[ray]'")
