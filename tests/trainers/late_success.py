"""An environment in which success takes long and failure does not; in a module that workers can import."""

from __future__ import annotations

import asyncio
from typing import Any

import turnwise as tw
from turnwise.envs.games.maze import MazeU

NEARER = 2
"""Number of moves that must each lead nearer to the goal."""


class LateSuccess(MazeU):
    """Ends with the first move that leads no nearer to the goal, and succeeds with the second one that does.

    Args:
        seconds: time that a success takes; a failure takes none.
    """

    def __init__(self, *, seconds: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seconds = seconds

    async def act(self, action: tw.Action) -> tw.Step:  # type: ignore[override]  # a maze answers at once
        before = self.maze.distance[self.cell]
        moved = super().act(action)
        if self.maze.distance[self.cell] >= before:
            return tw.failure("That was no way.")
        if not moved.terminated and self.turn < NEARER:
            return moved
        await asyncio.sleep(self.seconds)
        return tw.success("You are near.", 1.0)
