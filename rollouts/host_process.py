"""An environment in a child process: what crashes, leaks or hangs there stays there.

This isolates from accidents, not from malice: parent and child exchange pickles. Untrusted code belongs in a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import signal
import socket
import struct
import subprocess
from functools import partial
from typing import Any, Self

import cloudpickle
import pydantic

from ..envs.base import TurnEnv
from ..envs.child_command import child_command
from ..envs.harbor.address import is_harbor
from ..envs.messages import bounded
from ..envs.registry import Entry, make, register
from ..envs.tools import Tool
from ..errors import EnvironmentDiedError, EnvironmentFailedError, UsageError
from .hosts import CLOSING_GRACE, Build, Host

HEADER = struct.Struct("!Q")


class ProcessHost(Host):
    """An environment in a child process, reached over a socket pair.

    Forks live in the same process as their origin and share its fate; the process ends with the last of them.
    """

    def __init__(self, child: Child, handle: int) -> None:
        self._child = child
        self._handle = handle
        self._open = True
        child.users += 1

    @classmethod
    async def open(cls, build: Build) -> Self:
        """Start a process and create the environment in it."""
        try:
            payload = cloudpickle.dumps(build)
        except Exception as error:
            raise UsageError(
                f"{build!r} cannot be sent to another process ({type(error).__name__}: {error}); use isolation='thread'"
            ) from None
        child = await Child.start()
        try:
            handle = await child.ask(0, "open", payload)
        except BaseException:
            child.kill()
            raise
        return cls(child, handle)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.process.pid

    @property
    def ended(self) -> bool:
        """Whether the process has ended, by itself or by ``kill``."""
        return self._child.process.poll() is not None

    @property
    def episodes(self) -> int:
        """Number of episodes that have started in the process."""
        return self._child.resets

    def kill(self, why: str) -> bool:
        """End the process now; calls of its environments fail and say why. Returns whether it was still running."""
        return self._child.end(why)

    async def fork(self) -> ProcessHost:
        return self._alike(ProcessHost(self._child, await self._do("fork")))

    async def close(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSING_GRACE):
                    await self._child.ask(self._handle, "close", None)
        finally:  # also if this is canceled while a call of another fork is answered
            self._child.users -= 1
            if self._child.users == 0:
                self._child.kill()

    def abandon(self) -> None:
        self._open = False
        self._child.kill()

    async def _call(self, verb: str, argument: Any) -> Any:
        argument = bounded(argument) if verb == "step" else argument  # deeper ones do not fit through the pipe
        answer = await self._child.ask(self._handle, verb, argument)
        if verb == "reset":
            self._child.resets += 1
            observation, info, tools = answer
            return observation, info, tuple(_described(*tool) for tool in tools)
        return answer


class Child:
    """The process and the pipe to it. One call at a time; a call that is cut short kills the process."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.process = process
        self.users = 0
        self.resets = 0
        self._why = ""
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls) -> Self:
        """Start a child process with this process's module path; it ends when the pipe closes."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = _spawn(theirs.fileno())
        try:
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            process.kill()
            process.wait()
            raise
        return cls(process, reader, writer)

    async def ask(self, handle: int, verb: str, argument: Any) -> Any:
        """Call a verb on one of the child's environments.

        Raises:
            EnvironmentDiedError: the process died.
            UsageError: the argument is nested too deeply for the pipe.
        """
        async with self._turn:
            try:
                request = pickle.dumps((handle, verb, argument))
            except RecursionError:
                raise UsageError(f"the argument of {verb} is nested too deeply") from None
            try:
                self._writer.write(HEADER.pack(len(request)) + request)
                await self._writer.drain()
                (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                answer = await self._reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError, RuntimeError):
                raise EnvironmentDiedError(f"the environment's process {self._end()} in {verb}") from None
            except asyncio.CancelledError:
                self.kill()  # the next call would receive its answer
                raise
        ok, value = pickle.loads(answer)
        if not ok:
            raise value
        return value

    def end(self, why: str) -> bool:
        """Kill the process for a reason that its pending and further calls name; returns whether it was running."""
        running = self.process.poll() is None
        self._why = self._why or (why if running else "")
        self.kill()
        return running

    def kill(self) -> None:
        """End the process now."""
        self._writer.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _end(self) -> str:
        self._writer.close()
        if self._why:
            return self._why
        try:
            code = self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"


def _spawn(fd: int) -> subprocess.Popen[bytes]:
    stderr = 2  # keep an environment's prints out of a command's results
    command = child_command("rollouts.host_child", fd)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, pass_fds=(fd,))


def portable(entry: Entry, kwargs: dict[str, Any]) -> Build:
    """Return a way to create a registered environment that also works in a process where it was never registered."""
    return partial(_make_registered, entry, kwargs)


def _make_registered(entry: Entry, kwargs: dict[str, Any]) -> TurnEnv:
    if not is_harbor(entry.id):  # the folder that such an id names is all that there is to know
        register(entry.id, entry.entry_point, kwargs=entry.kwargs, source=entry.source, extra=entry.extra)
    return make(entry.id, **kwargs)


def _described(name: str, description: str, parameters: dict[str, Any], ends: bool) -> Tool:
    """Return a tool as the agent needs it; its function stays in the other process."""

    def elsewhere(*_: Any, **__: Any) -> Any:
        raise EnvironmentFailedError(f"tool {name!r} exists only in the environment's process; call it through step()")

    return Tool(name, description, parameters, pydantic.BaseModel, elsewhere, ends)
