"""An environment in which success takes long and failure does not; in a module that workers can import."""

from __future__ import annotations

import asyncio
from typing import Any

import turnwise as tw
from turnwise.envs.games.maze import MazeU


class LateSuccess(MazeU):
    """Ends with the first move, and succeeds if it leads nearer to the goal.

    Args:
        seconds: time that a success takes; a failure takes none.
    """

    def __init__(self, *, seconds: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seconds = seconds

    async def act(self, action: tw.Action) -> tw.Step:  # type: ignore[override]  # a maze answers at once
        before = self.maze.distance[self.cell]
        super().act(action)
        if self.maze.distance[self.cell] >= before:
            return tw.failure("That was no way.")
        await asyncio.sleep(self.seconds)
        return tw.success("You are near.", 1.0)
