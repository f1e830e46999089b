"""``Cell``: what a backend starts around the runner; all else about a sandbox is the same for every backend."""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from typing import Protocol

from ..result import Stats


class Cell(Protocol):
    """A confined place in which the runner (``turnwise_sandbox_runner.py``) runs as the first process.

    The backend has confined it before a byte of it runs. ``RunnerSandbox`` speaks with it through ``reader`` and
    ``writer``, its standard output and input, and asks the cell for whatever only the outside can do or know.
    """

    id: str
    reader: StreamReader
    writer: StreamWriter

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that every command in it has, whatever else was asked for."""
        return {}

    async def kill(self) -> None:
        """Kill everything in it and remove what is left of it; returns when nothing is. It may be called again."""

    async def stats(self) -> Stats:
        """What it uses; after it died, the last that is known."""

    async def died(self) -> str:
        """Once the streams have ended: why, as far as it can be known from outside, e.g. ``killed for memory``."""
