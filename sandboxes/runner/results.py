"""What came of a command, from what the runner says and what the outside knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import SandboxError
from ..result import ExecResult, Output, Stats, Status
from .frames import fields_of, number_in, seconds_in

FIELDS = 13
OVERHEAD = 4096
"""Bytes of an answer beside what was kept of the output."""
HOW = {b"exited": Status.EXITED, b"signaled": Status.SIGNALED, b"timeout": Status.TIMEOUT}
SIGKILL = 9


def result_of(answer: bytes) -> tuple[ExecResult, bool]:
    """A result, and whether the session in which it ran goes on.

    Raises:
        SandboxError: the answer is no result.
    """
    how, code, signal, seconds, cpu, peak, *streams, alive = fields_of(answer, FIELDS)
    if how not in HOW:
        raise SandboxError(f"the runner reports an unknown way for a command to end: {how[:40]!r}")
    return ExecResult(
        HOW[how],
        number_in(code),
        number_in(signal) or None,
        Output(streams[0], streams[1], number_in(streams[2])),
        Output(streams[3], streams[4], number_in(streams[5])),
        seconds_in(seconds),
        seconds_in(cpu),
        number_in(peak),
    ), alive == b"1"


def killed_for_memory(before: Stats, after: Stats) -> bool:
    """Whether the kernel has killed for memory between these two."""
    return before.oom_kills is not None and after.oom_kills is not None and after.oom_kills > before.oom_kills


def out_of_memory(result: ExecResult) -> ExecResult:
    """The same, but the kernel has killed it, or what it started, for memory."""
    return replace(result, status=Status.OOM)


def died_of_memory(seconds: float) -> ExecResult:
    """Of a command with which its whole sandbox was killed for memory."""
    return ExecResult(Status.OOM, 128 + SIGKILL, SIGKILL, Output(), Output(), seconds, 0.0, 0)


def keep_of(asked: int | None, limit: int) -> int:
    """How many bytes of each stream to keep."""
    return limit if asked is None else max(0, min(asked, limit))


def milliseconds(seconds: float) -> bytes:
    """A timeout as the runner reads it; at least one."""
    return b"%d" % max(1, min(round(seconds * 1000), 10**12))


def words(texts: Sequence[str]) -> list[bytes]:
    """Texts as file names and arguments are encoded."""
    return [text.encode("utf-8", "surrogateescape") for text in texts]
