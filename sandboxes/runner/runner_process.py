"""``RunnerProcess``: the confined runner that a backend starts; the rest of a sandbox is the same everywhere."""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from typing import Protocol

from ..result import Stats


class RunnerProcess(Protocol):
    """The runner as the first process of a confined place.

    The backend confines it before it runs a single byte. ``RunnerSandbox`` talks to it through ``reader`` and
    ``writer``, its standard output and input, and asks the process for everything that only the outside can do or know.
    """

    id: str
    reader: StreamReader
    writer: StreamWriter

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that every command in it has, in addition to the requested ones."""
        return {}

    async def kill(self) -> None:
        """Kill everything in it and remove all leftovers. It may be called again."""

    async def stats(self) -> Stats:
        """Return its usage; after it died, the last that is known."""

    async def died(self) -> str:
        """Return why the streams have ended, as far as the outside knows, e.g. ``killed for memory``."""
