"""Results of sandbox operations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a command ended; exactly one value, the first that applies."""

    OOM = "oom"
    """The kernel killed it, or a process that it started, for memory."""
    TIMEOUT = "timeout"
    """It did not end in time and was killed, with all processes that it started."""
    SIGNALED = "signaled"
    """A signal ended it."""
    EXITED = "exited"
    """It exited normally; see ``exit_code``."""


@dataclass(frozen=True, slots=True)
class Output:
    """One output stream: its beginning, its end, and the number of bytes dropped between them.

    Args:
        head: first bytes; all of them if nothing was dropped.
        tail: last bytes, after the dropped ones.
        dropped: number of dropped bytes.
    """

    head: bytes = b""
    tail: bytes = b""
    dropped: int = 0

    @property
    def text(self) -> str:
        """The output as text, with a note if bytes were dropped; bytes that are not UTF-8 are replaced."""
        head = self.head.decode("utf-8", "replace")
        if not self.dropped:
            return head + self.tail.decode("utf-8", "replace")
        return f"{head}\n[... {self.dropped} bytes dropped ...]\n{self.tail.decode('utf-8', 'replace')}"

    @property
    def size(self) -> int:
        """Total number of bytes written."""
        return len(self.head) + len(self.tail) + self.dropped


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Result of a command. A failure of the sandbox itself is never a result, but a ``SandboxError``.

    Args:
        status: how it ended.
        exit_code: exit code, or 128 plus the number of the signal that ended it.
        signal: signal that ended it; ``None`` if there was none.
        stdout: standard output.
        stderr: standard error.
        seconds: wall-clock time in seconds, measured inside.
        cpu_seconds: processor time in seconds, including children that it waited for.
        peak_memory: largest resident set of any of its processes, in bytes.
    """

    status: Status
    exit_code: int
    signal: int | None
    stdout: Output
    stderr: Output
    seconds: float
    cpu_seconds: float
    peak_memory: int

    @property
    def ok(self) -> bool:
        """Whether it exited with code 0."""
        return self.status is Status.EXITED and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a directory listing.

    Args:
        path: path relative to the listed directory; names that are not UTF-8 contain surrogates.
        kind: ``file``, ``directory``, ``link`` or ``other``.
        size: size of a file in bytes; 0 for other kinds.
        mode: permission bits.
    """

    path: str
    kind: str
    size: int
    mode: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Resource usage of a sandbox; ``None`` for values that the backend cannot determine.

    Args:
        memory: current memory in bytes, including files in memory.
        memory_peak: peak memory in bytes.
        pids: current number of processes and threads.
        cpu_seconds: processor time in seconds.
        oom_kills: number of processes that the kernel killed for memory.
        seconds: seconds since it was created.
    """

    memory: int | None
    memory_peak: int | None
    pids: int | None
    cpu_seconds: float | None
    oom_kills: int | None
    seconds: float
