"""``Connection``: one running MCP server and its session, on the loop that sandboxes use."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pydantic

from ...errors import EnvironmentDiedError, EnvironmentTimeoutError, InfrastructureError, ToolError, UsageError
from ..messages import clip
from .program import LimitError, program
from .spec import FOLDER, ServerSpec

if TYPE_CHECKING:
    import mcp

QUOTED = 500
"""Characters of a server's standard error that an error quotes."""
CONNECT, READ = 30.0, 300.0
"""Seconds to reach a server by HTTP, and to wait for a message: the SDK's defaults. Calls have their own limit."""
PROBE = 10.0
"""Seconds for a server to list its tools after a call that exceeded its time limit."""


class ServerLostError(EnvironmentDiedError):
    """A server died, or answers nothing any more, upon a call. Its caller finds out whether the call is the cause.

    Args:
        message: the error in words.
        late: the call took longer than it may, and the server did not answer a probe after it.
    """

    def __init__(self, message: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


class Connection:
    """A server that was started, or found, for this connection alone; made by ``open``.

    The SDK demands that a session is entered and left by one task, so each connection has a task that does nothing
    else. Everything here runs on one event loop.

    Args:
        spec: which server.
        folder: what ``{folder}`` stands for.
    """

    def __init__(self, spec: ServerSpec, folder: Path) -> None:
        self.spec, self._folder = spec, folder
        self.seconds = 0.0
        """Seconds that its start took."""
        self._client: asyncio.Future[mcp.Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._waiting: set[asyncio.Future[ToolError]] = set()
        self._complaints: IO[bytes] | None = None
        self._failed: str | None = None
        self._task = asyncio.create_task(self._live(), name=f"turnwise-mcp-{spec.name}")

    @classmethod
    async def open(cls, spec: ServerSpec, folder: Path) -> Connection:
        """Start the server and initialize the session.

        Raises:
            UsageError: there is no such program.
            InfrastructureError: it does not start, or does not answer in time.
        """
        began, made = time.perf_counter(), cls(spec, folder)
        try:
            async with asyncio.timeout(spec.start_timeout) as deadline:
                await asyncio.shield(made._client)
        except BaseException as error:
            await made.close()
            if isinstance(error, TimeoutError) and deadline.expired():
                raise EnvironmentTimeoutError(
                    f"MCP server {spec.name!r} had not started after {spec.start_timeout:g} s (start_timeout)"
                ) from None
            raise
        made.seconds = time.perf_counter() - began
        return made

    @property
    def alive(self) -> bool:
        """Whether it can be called, as far as is known."""
        return self._failed is None and not self._task.done() and not self._closing.is_set()

    async def tools(self) -> list[mcp.Tool]:
        """Return the tools that the server offers, from all pages of its list.

        Raises:
            InfrastructureError: it did not say, or without end.
        """
        client, found, cursor, seen = await self._client, list["mcp.Tool"](), None, set[str]()
        try:
            while True:
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
                found += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    return found
                if cursor in seen:
                    raise InfrastructureError(f"MCP server {self.spec.name!r} lists its tools without end")
                seen.add(cursor)
        except InfrastructureError:
            raise
        except Exception as error:
            raise InfrastructureError(
                f"MCP server {self.spec.name!r} does not say what its tools are: {error}"
            ) from error

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> mcp.types.CallToolResult:
        """Call a tool, by the server's own name for it.

        Raises:
            ToolError: the server refused the call, or its answer cannot be read.
            LimitError: the server did not answer in time, or too much.
            ServerLostError: it died, or does not answer a probe either; it is not to be called again.
        """
        if self._failed is not None:
            raise ServerLostError(self._failed)
        client, unread = await self._client, asyncio.get_running_loop().create_future()
        self._waiting.add(unread)
        # Cancelling it sends notifications/cancelled. Its own limit does not hold while the call is sent; ours does.
        sent = client.call_tool(tool, dict(arguments), read_timeout_seconds=2 * self.spec.timeout)
        answer = asyncio.ensure_future(sent)
        try:
            await asyncio.wait((answer, unread), timeout=self.spec.timeout, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if unread.done():
                why = unread.result()
                raise type(why)(f"{tool}: {why}")
        except (ToolError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise self._told(tool, error) from error
        finally:
            self._waiting.discard(unread)
            answer.cancel()
        raise await self._late(tool, client)

    async def close(self) -> None:
        """End the session and the server: gracefully, then by force. The SDK bounds the time to about seven seconds."""
        self._closing.set()
        if not self._client.done():
            self._task.cancel()
        await asyncio.wait((self._task,))

    # -- the inside ---------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        with tempfile.TemporaryFile() as self._complaints:
            try:
                async with self._session(self._complaints) as client:
                    self._client.set_result(client)
                    await self._closing.wait()
            except BaseException as error:
                if not self._client.done():
                    self._client.set_exception(self._unstarted(error))
                    self._client.exception()  # seen: who opened may have given up waiting
                self._failed = self._failed or f"MCP server {self.spec.name!r} is gone: {_innermost(error)}"

    @asynccontextmanager
    async def _session(self, complaints: IO[bytes]) -> AsyncIterator[mcp.Client]:
        import mcp

        async with AsyncExitStack() as stack:
            transport = await self._transport(complaints, stack)
            client = mcp.Client(
                transport,
                message_handler=self._heard,
                read_timeout_seconds=self.spec.start_timeout,
                cache=None,  # what a server's tools are is kept elsewhere
            )
            yield await stack.enter_async_context(client)

    async def _transport(self, complaints: IO[bytes], stack: AsyncExitStack) -> Any:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        spec = self.spec
        if spec.url is not None:
            timeout = httpx2.Timeout(CONNECT, read=max(READ, spec.timeout))
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(spec.headers), timeout=timeout))
            return streamable_http_client(self._filled(spec.url), http_client=http)
        env = {"PATH": os.environ.get("PATH", os.defpath), **self._variables()}
        if FOLDER not in spec.command[0] and shutil.which(spec.command[0], path=env["PATH"]) is None:
            raise UsageError(
                f"MCP server {spec.name!r} cannot be started: there is no program {spec.command[0]!r} here"
            )
        cwd = self._filled(str(spec.cwd)) if spec.cwd is not None else self._folder
        return program([self._filled(word) for word in spec.command], env=env, cwd=cwd, stderr=complaints)

    def _variables(self) -> dict[str, str]:
        spec = self.spec
        missing = [name for name in spec.inherit if name not in os.environ]
        if missing:
            raise UsageError(f"MCP server {spec.name!r} is to inherit {missing[0]}, which is not set here")
        return {name: os.environ[name] for name in spec.inherit} | {
            name: self._filled(value) for name, value in spec.env.items()
        }

    def _filled(self, text: str) -> str:
        return text.replace(FOLDER, str(self._folder))

    async def _heard(self, message: object) -> None:
        """Handle a line that cannot be read: if it was meant as an answer, stop waiting for that answer."""
        if isinstance(message, LimitError):
            self._give_up(message)
        elif isinstance(message, pydantic.ValidationError):
            lines = [str(problem["input"]) for problem in message.errors(include_url=False)]
            if any(re.search(r'"jsonrpc"', line) and not re.search(r'"method"', line) for line in lines):
                self._give_up(ToolError("the server's answer is not readable text"))

    def _give_up(self, why: ToolError) -> None:
        for unread in self._waiting:
            if not unread.done():
                unread.set_result(why)

    async def _late(self, tool: str, client: mcp.Client) -> Exception:
        """Handle a call that took too long: refuse it if the server still answers other requests."""
        late = f"there was no answer within {self.spec.timeout:g} s (timeout)"
        try:
            async with asyncio.timeout(PROBE):
                await client.list_tools(cache_mode="bypass")
        except Exception:
            self._failed = (
                f"MCP server {self.spec.name!r}, {tool!r}: {late}, and to nothing else in the {PROBE:g} s after it"
            )
            return ServerLostError(self._failed, late=True)
        return LimitError(f"{tool}: {late}; the call was cancelled")

    def _told(self, tool: str, error: Exception) -> Exception:
        """Convert an error of the SDK; if the server still runs, the result is an observation."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        answered = isinstance(error, (RuntimeError, pydantic.ValidationError)) or (
            isinstance(error, MCPError) and error.code != CONNECTION_CLOSED
        )
        if answered and not self._task.done():
            return ToolError(f"{tool}: {clip(str(error), QUOTED)}")
        self._failed = f"MCP server {self.spec.name!r} died while it was asked for {tool!r}{self._last_words()}"
        return ServerLostError(self._failed)

    def _unstarted(self, error: BaseException) -> Exception:
        inner = _innermost(error)
        if isinstance(inner, (UsageError, InfrastructureError)):
            return inner
        why = f"{type(inner).__name__}: {inner}" if str(inner) else type(inner).__name__
        return EnvironmentDiedError(f"MCP server {self.spec.name!r} did not start: {why}{self._last_words()}")

    def _last_words(self) -> str:
        """Return the end of its standard error, read without moving the position at which the server writes."""
        if self._complaints is None or self._complaints.closed:
            return ""
        size = os.fstat(self._complaints.fileno()).st_size
        words = os.pread(self._complaints.fileno(), QUOTED, max(0, size - QUOTED)).decode(errors="replace").strip()
        return f"; standard error ended with: {words}" if words else ""


def _innermost(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups, in which task groups wrap what they raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
