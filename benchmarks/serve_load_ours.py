"""Environments for ``serve_load.py``: one that repeats what it hears, at once or after a second."""

from __future__ import annotations

import asyncio
from typing import Any

import turnwise as tw


class Echo(tw.TurnEnv):
    """Repeats what it hears, at once."""

    blocking = False
    max_turns = 10**9

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "ready"

    def act(self, action: tw.Action) -> Any:
        return tw.running(action.text)


class Slow(Echo):
    """Repeats what it hears after a second, and waits without a thread."""

    async def act(self, action: tw.Action) -> Any:
        await asyncio.sleep(1.0)
        return tw.running(action.text)


tw.register("bench/Echo-v0", Echo)
tw.register("bench/Slow-v0", Slow)
