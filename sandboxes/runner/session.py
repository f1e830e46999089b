"""``RunnerSession``: a shell or an interpreter that the runner keeps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ...errors import SandboxError, ToolError, UsageError
from ..loop import LOOP, LoopBoundCall
from ..result import ExecResult
from ..sandbox import Answer, Session, SessionKind
from .channel import Asks, Channel
from .results import milliseconds

INTERRUPTION = 5.0
"""The most seconds that the runner needs to interrupt, and then to end, a command after its timeout."""


class Run(Protocol):
    """The sandbox's function that runs a request and measures it."""

    async def __call__(
        self, verb: bytes, request: Sequence[bytes], timeout: float, keep: int, asks: Asks | None = None
    ) -> tuple[ExecResult, bool]:
        """Return the result, and whether the session continues."""


class RunnerSession(Session):
    """Talks to a session of the runner.

    Args:
        kind: kind of the session.
        number: number of the session in the runner.
        channel: channel to the runner.
        run: function that runs a request there.
        keep: bytes of each stream that a result keeps.
    """

    def __init__(self, kind: SessionKind, number: int, channel: Channel, run: Run, keep: int) -> None:
        self.kind = kind
        self._name, self._channel, self._run, self._keep, self._goes_on = b"%d" % number, channel, run, keep, True

    @property
    def alive(self) -> bool:
        return self._goes_on and self._channel.alive

    async def run(
        self, source: str, *, timeout: float = 30.0, answer: Answer | None = None, asks: int = 1000
    ) -> ExecResult:
        if not self._goes_on:
            raise ToolError("the session has ended; open another")
        text = source.encode("utf-8", "surrogateescape")
        if answer is None:
            return await LOOP.run(self._run_here(text, timeout, None))
        if self.kind != "python":
            raise UsageError(f"code in a session of {self.kind!r} cannot send requests; open one of 'python'")
        async with LoopBoundCall(answer) as home:
            return await LOOP.run(self._run_here(text, timeout, Asks(home.call, max(0, asks))))

    async def _run_here(self, source: bytes, timeout: float, asks: Asks | None) -> ExecResult:
        request = [self._name, milliseconds(timeout), b"%d" % self._keep, b"%d" % (asks.left if asks else 0), source]
        try:
            result, self._goes_on = await self._run(b"run", request, timeout + INTERRUPTION, self._keep, asks)
        except ToolError as refused:
            self._goes_on = "ended" not in str(refused)
            raise
        return result

    async def close(self) -> None:
        if self.alive:
            with suppress(SandboxError, ToolError):
                await LOOP.run(self._channel.ask(b"close", self._name))
        self._goes_on = False
