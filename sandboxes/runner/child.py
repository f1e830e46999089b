"""A child process of this one that speaks over one socket, its standard input and output."""

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
"""Bytes of what it says on its standard error that are told to people."""


@dataclass(slots=True)
class Child:
    """A started process and the stream with it.

    Args:
        process: what was started.
        reader: what it writes.
        writer: to what it reads.
        errors: a file in memory that holds what it wrote on its standard error.
    """

    process: subprocess.Popen[bytes]
    reader: StreamReader
    writer: StreamWriter
    errors: int

    @property
    def pid(self) -> int:
        """Its process number."""
        return self.process.pid

    async def gone(self) -> int:
        """Wait until it has ended; its exit code, or the negative number of the signal that ended it."""
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
        """The end of what it wrote on its standard error; empty once it was let go."""
        if self.errors < 0:
            return ""
        size = os.fstat(self.errors).st_size
        return os.pread(self.errors, SAID, max(0, size - SAID)).decode("utf-8", "replace").strip()

    def let_go(self) -> None:
        """Close what is held of it; it must have ended."""
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
        cwd: where.
        pass_fds: descriptors that it gets beside its standard ones.

    Raises:
        SandboxError: it cannot be started.
    """
    process, ours, errors = _started(argv, env, cwd, pass_fds)
    try:
        reader, writer = await asyncio.open_unix_connection(sock=ours)
    except BaseException:  # it can be cancelled
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
