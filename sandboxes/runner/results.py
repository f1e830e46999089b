"""Results of commands, from the runner's answer and the outside's counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import SandboxError
from ..result import ExecResult, Output, Stats, Status
from .frames import fields_of, number_in, seconds_in

FIELDS = 13
OVERHEAD = 4096
"""Bytes of an answer beside the kept output."""
HOW = {b"exited": Status.EXITED, b"signaled": Status.SIGNALED, b"timeout": Status.TIMEOUT}
SIGKILL = 9


def result_of(answer: bytes) -> tuple[ExecResult, bool]:
    """Return a result, and whether its session continues.

    Raises:
        SandboxError: the answer is not a result.
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
    """Return the same result, marked as killed for memory by the kernel, itself or its children."""
    return replace(result, status=Status.OOM)


def died_of_memory(seconds: float) -> ExecResult:
    """Return the result of a command whose whole sandbox was killed for memory."""
    return ExecResult(Status.OOM, 128 + SIGKILL, SIGKILL, Output(), Output(), seconds, 0.0, 0)


def keep_of(asked: int | None, limit: int) -> int:
    """Return the number of bytes of each stream to keep."""
    return limit if asked is None else max(0, min(asked, limit))


def milliseconds(seconds: float) -> bytes:
    """Encode a timeout for the runner; at least one millisecond."""
    return b"%d" % max(1, min(round(seconds * 1000), 10**12))


def words(texts: Sequence[str]) -> list[bytes]:
    """Encode texts like file names and arguments."""
    return [text.encode("utf-8", "surrogateescape") for text in texts]
