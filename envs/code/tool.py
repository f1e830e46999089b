"""A code-execution tool for any tool environment."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ...tasks.rng import Rng
from ..toolenv import ToolEnv
from ..tools import tool
from .backends import spec_for
from .episode_sandbox import EpisodeSandbox
from .formatting import outcome


class CodeTool(ToolEnv):
    """A tool environment in which the agent may also run Python in a sandbox of its episode.

    Derive from this class and add your tools. Each call runs a separate program; later calls see the files that it
    writes. The sandbox is created on the first call, cannot see the environment, and is copied by a fork.

    Args:
        sandbox: name of the backend; omitted, the first confining one that works here.
        seconds: time limit of one program, in seconds.
        kwargs: further arguments of the environment.
    """

    episode_sandbox: EpisodeSandbox

    def __init__(self, *, sandbox: str | None = None, seconds: float = 10.0, **kwargs: Any) -> None:
        self.sandbox, self.seconds = sandbox, seconds
        self.episode_sandbox = EpisodeSandbox(sandbox, spec_for(sandbox))
        super().__init__(**kwargs)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Rng]:
        first = super()._begin(seed, options)
        self.episode_sandbox.abandon()
        self.episode_sandbox = EpisodeSandbox(self.sandbox, spec_for(self.sandbox))
        return first

    @tool
    async def python(self, code: str) -> str:
        """Run a Python program and see what it prints.

        Args:
            code: the program; files that it writes are kept for the next.
        """
        done = await (await self.episode_sandbox.sandbox()).exec(
            ["python3", "-"], stdin=code.encode(), timeout=self.seconds
        )
        await self.episode_sandbox.look()
        return outcome(done, self.seconds)

    @property
    def room(self) -> EpisodeSandbox:
        """Former name of ``episode_sandbox``; the next release removes it."""
        warnings.warn("room is now called episode_sandbox", DeprecationWarning, stacklevel=2)
        return self.episode_sandbox

    def close(self) -> None:
        """Release the sandbox."""
        self.episode_sandbox.abandon()
