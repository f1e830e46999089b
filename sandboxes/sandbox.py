"""``Sandbox``: where untrusted code runs. What every backend gives, and what the check suite holds it to."""

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
"""Answers what code in a session asks; a ``ToolError`` of its own is told to the code."""


class Session(ABC):
    """A shell or a Python interpreter that keeps its state between commands.

    It ends with the sandbox, when it is closed, or when what it runs ends it; then ``alive`` is false and ``run``
    raises ``ToolError``. A command that does not end in time is interrupted, and if that does not help, the session is
    ended.
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
        """Run shell commands, or Python statements, in the state that the last ones left.

        The standard input is empty. Of Python, the value of a last expression is printed as the interpreter does, and
        an exception is an exit code of 1 with the traceback on ``stderr``.

        While it runs, Python code may ask: ``turnwise_host.ask(request)`` gives the bytes that ``answer`` returns,
        which is awaited on the loop of whoever called ``run``, for one request at a time. ``turnwise_host.Refused``
        is raised instead where ``answer`` raises ``ToolError``, where nothing runs that has an ``answer``, in a
        forked process, and beyond the limits: 256 KiB of a request, 1 MiB of an answer, and ``asks``. An answer that
        is still awaited when the run ends, as at its timeout, is cancelled, and has ended when ``run`` returns.

        Args:
            source: what to run.
            timeout: seconds after which it is interrupted; answers count.
            answer: answers what the code asks.
            asks: how often it may ask.

        Raises:
            ToolError: the session has ended.
            SandboxError: the sandbox failed.
            UsageError: a shell cannot ask.
            Exception: whatever else ``answer`` raised; the code was interrupted.
        """

    @abstractmethod
    async def close(self) -> None:
        """End it, with all that it started."""


class Sandbox(ABC):
    """A place that untrusted code cannot leave, made by ``Backend.create``; an async context manager.

    Its methods may be awaited on any event loop. A failure of the sandbox itself raises ``SandboxError``, never looks
    like a command's: an episode that meets one is ``infra_failed``.

    Args:
        id: names it on this machine.
        spec: what was asked for.
    """

    id: str
    spec: SandboxSpec

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it can be used; false once it was destroyed or died."""

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
        """Run a command to its end. Whatever it leaves running is killed when nothing else runs in the sandbox: for
        what shall go on, open a session.

        Args:
            command: a program with arguments, or text for ``/bin/sh``.
            stdin: what it can read.
            cwd: where, relative to the working directory.
            env: more environment variables.
            timeout: seconds after which it is killed, with all that it started.
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
        """Write files, with the directories above them.

        Args:
            files: contents by path, relative to the working directory; one that leads out of it is refused.
            executable: whether they can be run.

        Raises:
            ToolError: a path is refused, or there is no room left; files before it may have been written.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def read_file(self, path: str, *, limit: int = 1024 * 1024) -> bytes:
        """The bytes of a regular file.

        Args:
            path: relative to the working directory, or absolute inside.
            limit: the most bytes; a larger file is refused, whatever size it says it has.

        Raises:
            ToolError: there is no such file, it is none that can be read, or it is too large.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def list_files(self, path: str = ".", *, limit: int = 10_000) -> tuple[FileInfo, ...]:
        """Everything below a directory, sorted by path; symbolic links are listed and not followed.

        Raises:
            ToolError: there is no such directory, or it holds more than ``limit`` entries.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def remove(self, paths: Sequence[str]) -> None:
        """Remove files and whole directories; one that is not there is no error.

        Raises:
            ToolError: a path leads out of the working directory.
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def snapshot(self) -> Snapshot:
        """The working directory as a value. What runs is not stopped: take it between commands.

        Raises:
            ToolError: it holds what no snapshot can (more bytes than the disk limit).
            SandboxError: the sandbox failed.
        """

    @abstractmethod
    async def fork(self, n: int = 1) -> list[Sandbox]:
        """New sandboxes of the same spec with the same files, independent of this one and of each other.

        Raises:
            SandboxError: one of them could not be made; then none is left.
        """

    @abstractmethod
    async def stats(self) -> Stats:
        """What it uses."""

    @abstractmethod
    async def destroy(self) -> None:
        """Kill what runs in it and remove what is left of it; returns when nothing is. It may be called again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.destroy()
