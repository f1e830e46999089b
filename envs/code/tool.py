"""A code-execution tool for any tool environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...tasks.rng import Rng
from ..toolenv import ToolEnv
from ..tools import tool
from .backends import spec_for
from .room import Room
from .words import outcome


class CodeTool(ToolEnv):
    """A tool environment in which the agent may also run Python, in a sandbox of the episode's own.

    Derive from it beside your tools. Each call is a program by itself; files that it writes are there for the next. The
    sandbox is made when the tool is first called, sees nothing of the environment, and is copied when it forks.

    Args:
        sandbox: the backend; omitted, the first that works here and confines.
        seconds: that a program has.
        kwargs: of the environment.
    """

    room: Room

    def __init__(self, *, sandbox: str | None = None, seconds: float = 10.0, **kwargs: Any) -> None:
        self.sandbox, self.seconds = sandbox, seconds
        self.room = Room(sandbox, spec_for(sandbox))
        super().__init__(**kwargs)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Rng]:
        begun = super()._begin(seed, options)
        self.room.abandon()
        self.room = Room(self.sandbox, spec_for(self.sandbox))
        return begun

    @tool
    async def python(self, code: str) -> str:
        """Run a Python program and see what it prints.

        Args:
            code: the program; files that it writes are kept for the next.
        """
        done = await (await self.room.sandbox()).exec(["python3", "-"], stdin=code.encode(), timeout=self.seconds)
        await self.room.look()
        return outcome(done, self.seconds)

    def close(self) -> None:
        """Let go of the sandbox."""
        self.room.abandon()
