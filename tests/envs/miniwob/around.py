"""Shared helpers of these tests: make an environment of a page, and play the ``solutions``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import turnwise as tw
from turnwise.envs.messages import ToolCall
from turnwise.envs.miniwob.env import MiniwobEnv
from turnwise.envs.web.page import Node
from turnwise.tasks.miniwob.suite import id_of

UPSTREAM: dict[str, Any] = json.loads(Path(__file__).with_name("upstream.json").read_text(encoding="utf-8"))
"""Answers of upstream's own driver; ``record_upstream.py`` wrote them."""


@contextmanager
def opened(page: str, seed: int | None = 0, **kwargs: Any) -> Iterator[MiniwobEnv]:
    """An environment whose episode has started, and which is closed afterwards.

    Args:
        page: such as ``click-test``.
        seed: of the episode; ``None`` for none yet.
        kwargs: arguments of the environment.
    """
    env = cast(MiniwobEnv, tw.make(id_of(page), **kwargs).unwrapped)
    try:
        if seed is not None:
            env.reset(seed=seed)
        yield env
    finally:
        env.close()


def until(true: Callable[[], bool], why: str) -> None:
    """Wait for something that happens in the background."""
    for _ in range(2400):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError(why)


def node(env: MiniwobEnv, *roles: str, name: str | None = None) -> list[Node]:
    """Elements with one of these roles, and this name if one is given."""
    return [one for one in env.page.by_id.values() if (not roles or one.role in roles) and name in (None, one.name)]


def call(env: MiniwobEnv, act: Sequence[Any]) -> ToolCall:
    """An act of ``solutions`` as a call."""
    match act[0]:
        case "at":
            return ToolCall("mouse_click", {"x": act[1], "y": act[2]})
        case "type":
            return ToolCall("fill", {"id": node(env, "textbox")[act[1]].id, "value": act[2]})
        case "focus":
            return ToolCall("click", {"id": node(env, "textbox")[act[1]].id})
        case "check":
            return ToolCall("check", {"id": node(env, "checkbox", "radio", name=act[1])[0].id})
    return ToolCall("click", {"id": node(env, name=act[1])[-1].id})


def played(env: MiniwobEnv, acts: Sequence[Sequence[Any]]) -> tuple[float, bool]:
    """The raw reward after some acts, and whether the page has ended the episode."""
    done = False
    for act in acts:
        _, _, done, _, info = env.step(call(env, act))
        assert "tool_errors" not in info, f"{act} could not be done: {env.page}"
    return env.raw, done
