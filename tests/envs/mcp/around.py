"""Servers of our own, and environments around them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import turnwise as tw
from turnwise.envs.mcp.spec import ServerSpec
from turnwise.envs.mcp.tools import McpTools

HERE = Path(__file__).parent


def raw(*words: str, **fields: Any) -> ServerSpec:
    """The server without the SDK."""
    command = (sys.executable, "-S", str(HERE / "raw_server.py"), *words)
    return ServerSpec(**{"name": "raw", "command": command, "timeout": 20.0, **fields})


class Around(McpTools):
    """The servers' tools, and one tool of the environment's own."""

    max_turns = 1000

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.stopped = False
        return "Go."

    @tw.tool(ends=True)
    def stop(self) -> str:
        """End the episode."""
        self.stopped = True
        return "Stopped."

    def judge(self) -> tw.Score:
        return tw.Score(self.stopped)


def said(env: tw.TurnEnv, tool: str, /, **arguments: Any) -> str:
    """Return an environment's answer to one call."""
    return env.step(tw.ToolCall(tool, arguments))[0].text


def gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether a process ends within some time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
