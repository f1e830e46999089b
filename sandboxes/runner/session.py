"""``RunnerSession``: a shell or an interpreter that the runner keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from ...errors import SandboxError, ToolError
from ..portal import through
from ..result import ExecResult
from ..sandbox import Session, SessionKind
from .channel import Channel
from .results import milliseconds

Run = Callable[[bytes, Sequence[bytes], float, int], Awaitable[tuple[ExecResult, bool]]]
INTERRUPTION = 5.0
"""Seconds that the runner takes at most to interrupt, and then to end, what does not end in time."""


class RunnerSession(Session):
    """Speaks with a session of the runner.

    Args:
        kind: what it is.
        number: by which the runner knows it.
        channel: to the runner.
        run: how the sandbox runs something there.
        keep: bytes of each stream that a result keeps.
    """

    def __init__(self, kind: SessionKind, number: int, channel: Channel, run: Run, keep: int) -> None:
        self.kind = kind
        self._name, self._channel, self._run, self._keep, self._goes_on = b"%d" % number, channel, run, keep, True

    @property
    def alive(self) -> bool:
        return self._goes_on and self._channel.alive

    async def run(self, source: str, *, timeout: float = 30.0) -> ExecResult:
        if not self._goes_on:
            raise ToolError("the session has ended; open another")
        return await through(self._run_here(source.encode("utf-8", "surrogateescape"), timeout))

    async def _run_here(self, source: bytes, timeout: float) -> ExecResult:
        request = [self._name, milliseconds(timeout), b"%d" % self._keep, source]
        try:
            result, self._goes_on = await self._run(b"run", request, timeout + INTERRUPTION, self._keep)
        except ToolError as refused:
            self._goes_on = "ended" not in str(refused)
            raise
        return result

    async def close(self) -> None:
        if self.alive:
            with suppress(SandboxError, ToolError):
                await through(self._channel.ask(b"close", self._name))
        self._goes_on = False
