"""``Servers``: the MCP servers of one episode, started on first use, and their reliable shutdown."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import EnvironmentDiedError, UsageError
from ...sandboxes.loop import LOOP, to_thread
from .connection import Connection
from .spec import ServerSpec

if TYPE_CHECKING:
    import mcp

GRACE = 10.0
"""Seconds for ending servers when the process ends."""


class Servers:
    """The MCP servers of an episode. Each starts on first use, and ends when this object is closed or
    garbage-collected.

    A copy, deep or not, is another set with nothing started: what a server remembers is in no Python object.
    """

    def __init__(self) -> None:
        self._held = _Held()
        self._finalizer = weakref.finalize(self, _abandoned, self._held)
        self._finalizer.atexit = False  # then all that live are closed, and waited for

    @property
    def folder(self) -> Path:
        """The servers' own folder, created on first use."""
        return self._held.folder

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds that the start of each server took, by its name; servers without a call are left out."""
        return dict(self._held.seconds)

    async def call(self, spec: ServerSpec, tool: str, arguments: Mapping[str, Any]) -> mcp.types.CallToolResult:
        """Call a tool by the server's own name for it, and start the server on first use.

        Raises:
            ToolError: the server refused the call, or did not answer it in time.
            InfrastructureError: the server does not start, or is lost.
        """
        return await LOOP.run(self._held.call(spec, tool, arguments))

    async def tools(self, spec: ServerSpec) -> list[mcp.Tool]:
        """Return the tools that a server offers; see ``call``."""
        return await LOOP.run(self._held.tools(spec))

    async def close(self) -> None:
        """End every server, and remove the folder."""
        self._finalizer.detach()
        await LOOP.run(self._held.close())

    def abandon(self) -> None:
        """End every server in the background."""
        if self._finalizer.detach() is not None:
            _abandoned(self._held)

    def __deepcopy__(self, memo: dict[int, Any]) -> Servers:
        return Servers()


@lru_cache(maxsize=64)
def shared(spec: ServerSpec) -> Servers:
    """Return the servers without state, one per spec, that all episodes of this process share."""
    return Servers()


class _Held:
    """The servers to close. Its coroutines run on the sandboxes' loop, one at a time between their awaits."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._opened: dict[ServerSpec, asyncio.Task[Connection]] = {}
        self._folder: Path | None = None
        self._making = threading.Lock()
        self._closed = False

    @property
    def folder(self) -> Path:
        with self._making:
            if self._closed:
                raise UsageError("this episode has ended, and its folder was removed with it")
            if self._folder is None:
                # Resolved, as servers that confine themselves to a folder resolve it too.
                self._folder = Path(tempfile.mkdtemp(prefix="turnwise-mcp-")).resolve()
                _living().add(self)
            return self._folder

    async def call(self, spec: ServerSpec, tool: str, arguments: Mapping[str, Any]) -> mcp.types.CallToolResult:
        return await (await self._connection(spec)).call(tool, arguments)

    async def tools(self, spec: ServerSpec) -> list[mcp.Tool]:
        return await (await self._connection(spec)).tools()

    async def close(self) -> None:
        with self._making:
            self._closed = True
        opened, self._opened = list(self._opened.values()), {}
        for task in opened:
            task.cancel()  # one that is still being opened closes itself
        made = await asyncio.gather(*opened, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in made if isinstance(each, Connection)))
        if self._folder is not None:
            await to_thread(partial(shutil.rmtree, self._folder, ignore_errors=True))
        _living().discard(self)

    async def _connection(self, spec: ServerSpec) -> Connection:
        task = self._opened.get(spec)
        if task is not None and task.done() and not _of_use(task, spec):
            del self._opened[spec]
            task = None
        if task is None:
            if self._closed:
                raise EnvironmentDiedError(f"MCP server {spec.name!r} cannot start: the episode has ended")
            task = self._opened[spec] = asyncio.create_task(Connection.open(spec, self.folder))
        connection = await asyncio.shield(task)
        self.seconds[spec.name] = connection.seconds
        return connection


def _of_use(task: asyncio.Task[Connection], spec: ServerSpec) -> bool:
    """Return whether to use the opened servers again. A dead server with an episode's state took the state along."""
    if task.cancelled() or task.exception() is not None:
        return False
    if not spec.stateless or task.result().alive:
        return True
    dying = asyncio.get_running_loop().create_task(task.result().close())
    dying.add_done_callback(lambda done: done.exception())
    return False


def _abandoned(held: _Held) -> None:
    LOOP.submit(held.close())


@lru_cache(maxsize=1)
def _living() -> set[_Held]:
    """Return the set of servers that are not closed yet, for the end of the process."""
    atexit.register(_close_all)
    return set()


def _close_all() -> None:
    """Stop all servers; one that hangs has received a signal, and sees its input end with this process."""

    async def closed() -> None:
        await asyncio.gather(*(held.close() for held in tuple(_living())), return_exceptions=True)

    with suppress(Exception):
        LOOP.wait(closed(), GRACE)
