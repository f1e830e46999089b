"""``Sandbox``: a place for untrusted code. The contract of every backend, tested by the check suite."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

from .result import ExecResult, FileInfo, Stats
from .snapshot import Snapshot
from .spec import SandboxSpec

Command = str | Sequence[str]
"""A line for ``/bin/sh``, or a program and its arguments."""
SessionKind = Literal["sh", "python"]
Answer = Callable[[bytes], Awaitable[bytes]]
"""Answers requests of code in a session; a ``ToolError`` that it raises is passed on to the code."""


class Session(ABC):
    """A shell or a Python interpreter that keeps its state between commands.

    It ends with the sandbox, when it is closed, or when a command ends it; then ``alive`` is false and ``run`` raises
    ``ToolError``. A command that does not end in time is interrupted; if that does not help, the session ends.
    """

    kind: SessionKind

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it can run another command."""

    @abstractmethod
    async def run(
        self, source: str, *, timeout: float = 30.0, answer: Answer | None = None, asks: int = 1000
    ) -> ExecResult:
        """Run shell commands, or Python statements, in the state that earlier ones left.

        The standard input is empty. For Python, the value of a last expression is printed as the interpreter does, and
        an exception becomes exit code 1 with the traceback on ``stderr``.

        While it runs, Python code may send requests: ``turnwise_host.ask(request)`` returns the bytes that ``answer``
        returns, which is awaited on the loop of the caller of ``run``, for one request at a time. It raises
        ``turnwise_host.Refused`` if ``answer`` raises ``ToolError``, if nothing with an ``answer`` is running, in a
        forked process, and beyond the limits: 256 KiB per request, 1 MiB per answer, and ``asks``. An answer that is
        still awaited at the end of the run, for instance at its timeout, is cancelled, and has ended when ``run``
        returns.

        Args:
            source: code to run.
            timeout: seconds after which it is interrupted, including the time for answers.
            answer: function that answers the code's requests.
            asks: maximum number of requests.

        Raises:
            ToolError: the session has ended.
            SandboxError: the sandbox failed.
            UsageError: ``answer`` was given to a shell.
            Exception: any other exception of ``answer``; the code was interrupted.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the session, and kill all processes that it started."""


class Sandbox(ABC):
    """An isolated place for untrusted code, created by ``Backend.create``; an async context manager.

    Its methods may be awaited on any event loop. A failure of the sandbox itself raises ``SandboxError`` and never
    looks like a command's failure: an episode that meets one is ``infra_failed``.

    Args:
        id: id of the sandbox on this machine.
        spec: requested specification.
    """

    id: str
    spec: SandboxSpec

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it can be used; false after it was destroyed or died."""

    @abstractmethod
    async def exec(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        output: int | None = None,
    ) -> ExecResult:
        """Run a command to its end. Processes that it leaves behind are killed when nothing else runs in the sandbox;
        to keep them, open a session.

        Args:
            command: a program with arguments, or text for ``/bin/sh``.
            stdin: content of its standard input.
            cwd: working directory of the command, relative to the sandbox's.
            env: additional environment variables.
            timeout: seconds after which it is killed, with all processes that it started.
            output: bytes of each stream to keep; at most, and by default, ``limits.output``.

        Raises:
            ToolError: there is no such program or directory.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def session(self, kind: SessionKind = "sh") -> Session:
        """Open a shell or a Python interpreter.

        Raises:
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def write_files(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        """Write files, and create their parent directories.

        Args:
            files: contents by path, relative to the working directory; a path that leads out of it is refused.
            executable: whether to make them executable.

        Raises:
            ToolError: a path is refused, or there is no space left; earlier files may have been written.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def read_file(self, path: str, *, limit: int = 1024 * 1024) -> bytes:
        """Read a regular file.

        Args:
            path: path relative to the working directory, or absolute inside.
            limit: maximum bytes; a larger file is refused, whatever size it claims to have.

        Raises:
            ToolError: there is no such file, it is not readable, or it is too large.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def list_files(self, path: str = ".", *, limit: int = 10_000) -> tuple[FileInfo, ...]:
        """List everything below a directory, sorted by path; symbolic links are listed and not followed.

        Raises:
            ToolError: there is no such directory, or it has more than ``limit`` entries.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def remove(self, paths: Sequence[str]) -> None:
        """Remove files and whole directories; a missing path is not an error.

        Raises:
            ToolError: a path leads out of the working directory.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def snapshot(self) -> Snapshot:
        """Return the working directory as a value. Running processes are not stopped: call it between commands.

        Raises:
            ToolError: the directory is larger than a snapshot may be (more bytes than the disk limit).
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def fork(self, n: int = 1) -> list[Sandbox]:
        """Create sandboxes with the same spec and the same files, independent of this one and of each other.

        Raises:
            SandboxError: one of them could not be created; then none is left.
        """

    @abstractmethod
    async def stats(self) -> Stats:
        """Return its resource usage."""

    @abstractmethod
    async def destroy(self) -> None:
        """Kill its processes and remove all its traces; returns when nothing is left. It may be called again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.destroy()
