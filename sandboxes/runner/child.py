"""A child process whose standard input and output are one socket."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import SandboxError

SAID = 2000
"""Bytes of its standard error that error messages quote."""


@dataclass(slots=True)
class Child:
    """A started process and the stream with it.

    process: the child process.
    reader: stream of its output.
    writer: stream of its input.
    errors: file in memory with its standard error.
    """

    process: subprocess.Popen[bytes]
    reader: StreamReader
    writer: StreamWriter
    errors: int

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    async def gone(self) -> int:
        """Wait until it has ended; return its exit code, or the negative number of the signal that ended it."""
        if self.process.poll() is None:
            loop, ended = asyncio.get_running_loop(), asyncio.Event()
            descriptor = os.pidfd_open(self.process.pid)
            loop.add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
        return self.process.wait()

    def said(self) -> str:
        """Return the end of its standard error; empty after ``close``."""
        if self.errors < 0:
            return ""
        size = os.fstat(self.errors).st_size
        return os.pread(self.errors, SAID, max(0, size - SAID)).decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Close its streams and files; it must have ended."""
        self.writer.close()
        if self.errors >= 0:
            os.close(self.errors)
            self.errors = -1


async def start_child(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str = "/", pass_fds: Sequence[int] = ()
) -> Child:
    """Start a process without a copy of this one's memory, in a session of its own.

    Args:
        argv: the program and its arguments.
        env: its whole environment.
        cwd: working directory.
        pass_fds: descriptors that it gets beside its standard ones.

    Raises:
        SandboxError: it cannot be started.
    """
    process, ours, errors = _started(argv, env, cwd, pass_fds)
    try:
        reader, writer = await asyncio.open_unix_connection(sock=ours)
    except BaseException:  # this may be a cancellation
        process.kill()
        process.wait()
        ours.close()
        os.close(errors)
        raise
    return Child(process, reader, writer, errors)


def _started(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, pass_fds: Sequence[int]
) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    ours, theirs = socket.socketpair()
    errors = os.memfd_create("errors")
    with theirs:
        pair = theirs.fileno()
        try:
            process = subprocess.Popen(
                argv,
                stdin=pair,
                stdout=pair,
                stderr=errors,
                env=env,
                cwd=cwd,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(errors)
            raise SandboxError(f"cannot start {argv[0]}: {error}") from None
    return process, ours, errors
