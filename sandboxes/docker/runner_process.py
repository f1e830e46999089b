"""One container with the runner in it: its streams, its usage, why it ended, and its end."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from dataclasses import replace

from ...errors import SandboxError
from ..result import Stats
from ..runner.runner_process import RunnerProcess
from ..usage import Usage, usage_of
from . import containers
from .engine import Engine
from .stream import Attachment

SHORT = 12
"""Characters of a container's id that name it."""
NOTICED = 3.0
"""Seconds in which the engine notices that a container ended."""
KILLED = 128 + signal.SIGKILL
"""The exit code of a container whose first process was killed."""
DEAD = 5.0
"""Seconds in which the kernel ends processes that were killed."""


class DockerProcess(RunnerProcess):
    """A ``RunnerProcess`` in a container.

    On the engine's machine its counters are read from the kernel, since asking the engine takes a second.

    Args:
        engine: engine that runs it.
        container: id of the container.
        attachment: its streams.
        pid: process id of the runner on the engine's machine.
    """

    reader: StreamReader
    writer: StreamWriter

    def __init__(self, engine: Engine, container: str, attachment: Attachment, pid: int) -> None:
        self.id = container[:SHORT]
        self.reader, self.writer = attachment.reader, attachment.writer
        self._engine, self._container, self._protocol = engine, container, attachment.protocol
        self._began = time.monotonic()
        self._usage = usage_of(pid, container)
        self._runner = os.pidfd_open(pid) if self._usage is not None else None
        self._last = Usage({}).stats(0.0)
        self._ending: asyncio.Task[None] | None = None

    async def stats(self) -> Stats:
        """Return its usage; after it died, the last that is known."""
        seconds = time.monotonic() - self._began
        if self._usage is not None:
            found = self._usage.stats(seconds)
        else:
            try:
                found = await self._engine.ask(containers.usage, self._container, seconds)
            except SandboxError:
                return self._last
        if found.pids is not None:
            self._last = found
        return self._last

    async def died(self) -> str:
        """Return why its streams ended."""
        until = time.monotonic() + NOTICED
        try:
            while (state := await self._engine.ask(containers.state, self._container)) is not None:
                if not state.running or time.monotonic() > until:
                    break
                await asyncio.sleep(0.05)
        except SandboxError as error:
            return str(error)
        if state is None:
            return "its container was removed by somebody else"
        if state.running:
            return "the docker engine cut the connection to it"
        if state.out_of_memory or self._last.oom_kills:
            self._last = replace(self._last, oom_kills=self._last.oom_kills or 1)  # its counters are lost
            return "killed for memory"
        if state.exit_code == KILLED:
            return "its runner was killed"
        said = self._protocol.said.decode("utf-8", "replace").strip()
        return f"its runner ended with exit code {state.exit_code}" + (f": {said[-500:]}" if said else "")

    async def kill(self) -> None:
        """Kill everything in it and remove it, and wait for the end. Canceling the caller does not stop this.

        Raises:
            SandboxError: it still exists.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        self.writer.transport.abort()
        try:
            await self._engine.ask(containers.remove, self._container)
        except SandboxError:
            # Without its engine: when the runner ends, all processes end with it. ``reap`` removes the engine's record
            # of the container once the engine is back.
            self._engine.left.add(self._container)
            if self._runner is None:
                raise
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._runner, signal.SIGKILL)
        if self._runner is not None:
            runner, self._runner = self._runner, None
            try:
                await ended(runner)
            finally:
                os.close(runner)


async def ended(process: int) -> None:
    """Wait until a process that was killed has ended.

    Args:
        process: descriptor of the process.

    Raises:
        SandboxError: it is still running after some seconds.
    """
    watch = select.poll()
    watch.register(process, select.POLLIN)
    until = time.monotonic() + DEAD
    while not watch.poll(0):
        if time.monotonic() > until:
            raise SandboxError(f"the runner of a sandbox still runs {DEAD:g} s after it was killed")
        await asyncio.sleep(0.005)
