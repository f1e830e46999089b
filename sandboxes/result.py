"""What came of running something in a sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a command ended; exactly one holds, the first that applies."""

    OOM = "oom"
    """The kernel killed it, or what it started, for memory."""
    TIMEOUT = "timeout"
    """It did not end in time and was killed, with all that it had started."""
    SIGNALED = "signaled"
    """A signal ended it."""
    EXITED = "exited"
    """It ended by itself; see ``exit_code``."""


@dataclass(frozen=True, slots=True)
class Output:
    """One stream of output: its beginning and its end, and how much was dropped between them.

    Args:
        head: the first bytes; all of them if nothing was dropped.
        tail: the last bytes, after what was dropped.
        dropped: how many bytes between them were not kept.
    """

    head: bytes = b""
    tail: bytes = b""
    dropped: int = 0

    @property
    def text(self) -> str:
        """As text, with a note where bytes were dropped; what is no UTF-8 is replaced."""
        head = self.head.decode("utf-8", "replace")
        if not self.dropped:
            return head + self.tail.decode("utf-8", "replace")
        return f"{head}\n[... {self.dropped} bytes dropped ...]\n{self.tail.decode('utf-8', 'replace')}"

    @property
    def size(self) -> int:
        """Bytes that were written in all."""
        return len(self.head) + len(self.tail) + self.dropped


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What came of a command. That the sandbox itself failed is never a result, but a ``SandboxError``.

    Args:
        status: how it ended.
        exit_code: of a command that exited; 128 plus the signal's number of one that a signal ended.
        signal: the signal that ended it; ``None`` if none did.
        stdout: what it wrote there.
        stderr: what it wrote there.
        seconds: wall-clock time, measured inside.
        cpu_seconds: processor time of it and of the children that it waited for.
        peak_memory: largest resident set of one of them, in bytes.
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
        """Whether it exited with 0."""
        return self.status is Status.EXITED and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a directory listing.

    Args:
        path: relative to the directory that was listed; names that are no UTF-8 carry surrogates.
        kind: ``file``, ``directory``, ``link`` or ``other``.
        size: bytes of a file; 0 otherwise.
        mode: permission bits.
    """

    path: str
    kind: str
    size: int
    mode: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What a sandbox uses; ``None`` where the backend cannot tell.

    Args:
        memory: bytes now, files in memory included.
        memory_peak: the most so far.
        pids: processes and threads now.
        cpu_seconds: so far.
        oom_kills: processes that the kernel killed for memory, so far.
        seconds: since it was created.
    """

    memory: int | None
    memory_peak: int | None
    pids: int | None
    cpu_seconds: float | None
    oom_kills: int | None
    seconds: float
