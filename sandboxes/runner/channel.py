"""Requests to the runner of one sandbox: many at a time, each with a deadline."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count

from ...errors import SandboxError, ToolError
from ..sandbox import Answer
from .frames import PIECE, Frame, Frames, Kind, message
from .runner_process import RunnerProcess

PATIENCE = 60.0
"""Seconds that the runner has beyond the time of its work; then the sandbox is given up."""
LONGEST_ANSWER = 1 << 20
"""Largest answer to code inside, in bytes."""


@dataclass(slots=True)
class _Asked:
    answer: asyncio.Future[bytes]
    most: int
    asks: Asks | None = None
    received: bytearray = field(default_factory=bytearray)
    answering: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Asks:
    """The requests of code inside that are allowed while a request to the runner is pending.

    Args:
        answer: function that returns the answer, or raises ``ToolError`` to refuse; other errors end the request.
        left: number of requests still allowed.
    """

    answer: Answer
    left: int


class _AnswerFailed(Exception):
    """Wraps an error of the answer function, which may look like a failure of the sandbox."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Channel:
    """Talks to a runner; it must be used on the loop of the runner's streams.

    A message that does not answer a request, or is too large, ends the sandbox.
    """

    def __init__(self, process: RunnerProcess) -> None:
        self.process, self.why = process, ""
        self._asked: dict[int, _Asked] = {}
        self._numbers = count(1)
        self._reading = asyncio.ensure_future(self._read())
        self._killing: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether requests still get answers."""
        return not self.why

    async def ask(self, *fields: bytes, most: int = PIECE, seconds: float = 0.0, asks: Asks | None = None) -> bytes:
        """Return the answer to a request.

        Args:
            fields: fields of the request.
            most: largest answer, in bytes.
            seconds: expected duration of the work.
            asks: allowed requests of code inside.

        Raises:
            ToolError: the request cannot be fulfilled; the text says why.
            SandboxError: the sandbox has ended, does not answer, or sends invalid messages.
        """
        number = next(self._numbers)
        return await self._ask(number, fields, most, seconds, asks)

    async def opened(self, *fields: bytes) -> int:
        """Return the number of an opening request, once it is answered."""
        number = next(self._numbers)
        await self._ask(number, fields, PIECE, 0.0)
        return number

    async def _ask(
        self, number: int, fields: tuple[bytes, ...], most: int, seconds: float, asks: Asks | None = None
    ) -> bytes:
        if self.why:
            raise SandboxError(self.why)
        asked = self._asked[number] = _Asked(asyncio.get_running_loop().create_future(), most, asks)
        try:
            async with asyncio.timeout(seconds + PATIENCE):
                self.process.writer.write(message(number, fields))
                await self.process.writer.drain()
                return await asked.answer
        except ConnectionError:
            return await asked.answer  # the reader is about to find the reason
        except TimeoutError:
            await self.end(f"the sandbox did not answer for {seconds + PATIENCE:.0f} s")
            raise SandboxError(self.why) from None
        except (asyncio.CancelledError, _AnswerFailed) as over:
            if number in self._asked and not self.why:
                self._write_soon(b"cancel", b"%d" % number)
            if isinstance(over, _AnswerFailed):
                raise over.error from None
            raise
        finally:
            if asked.answering is not None:
                asked.answering.cancel()

    def _write_soon(self, *fields: bytes) -> None:
        number = next(self._numbers)
        self._asked[number] = _Asked(asyncio.get_running_loop().create_future(), PIECE)
        self.process.writer.write(message(number, fields))

    async def _answer(self, number: int, asked: _Asked, asks: Asks, request: bytes) -> None:
        """Answer a request of code inside."""
        try:
            how, body = b"1", await asks.answer(request)
            if len(body) > LONGEST_ANSWER:
                raise ToolError(f"the answer has {len(body)} bytes, more than {LONGEST_ANSWER}")
        except ToolError as refused:
            how, body = b"0", str(refused).encode("utf-8", "replace")[:LONGEST_ANSWER]
        except Exception as error:
            if not asked.answer.done():
                asked.answer.set_exception(_AnswerFailed(error))
            return
        if number in self._asked and not self.why:
            self._write_soon(b"answer", b"%d" % number, how, body)

    async def end(self, why: str) -> None:
        """Kill the sandbox; pending and later requests fail with the reason."""
        self._fail(why)
        self._reading.cancel()
        await self._kill()

    async def _kill(self) -> None:
        """Kill the process, once for all callers; canceling one of them does not stop it."""
        if self._killing is None:
            self._killing = asyncio.ensure_future(self.process.kill())
        await asyncio.shield(self._killing)

    def _fail(self, why: str) -> None:
        self.why = self.why or why
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(SandboxError(self.why))
                asked.answer.exception()  # a canceled caller does not retrieve it
        self._asked.clear()

    async def _read(self) -> None:
        frames = Frames()
        try:
            while data := await self._more():
                for frame in frames.feed(data):
                    self._take(frame)
            why = f"the sandbox has ended: {await self.process.died()}"
        except SandboxError as error:
            why = f"the sandbox was ended: {error}"
        self._fail(why)
        await self._kill()

    async def _more(self) -> bytes:
        """Return the next bytes; none once the runner has ended."""
        try:
            return await self.process.reader.read(PIECE)
        except OSError:
            return b""

    def _take(self, frame: Frame) -> None:
        asked = self._asked.get(frame.number)
        if asked is None:
            raise SandboxError("the runner sent an answer without a request")
        if frame.kind is Kind.ASKED:
            self._question(frame, asked)
            return
        asked.received += frame.body
        if len(asked.received) > asked.most and frame.kind is not Kind.FAILED:
            raise SandboxError(f"an answer of the runner is larger than {asked.most} bytes")
        if frame.kind is Kind.MORE:
            return
        del self._asked[frame.number]
        if asked.answer.done():  # the caller was canceled
            return
        if frame.kind is Kind.FAILED:
            asked.answer.set_exception(ToolError(frame.body.decode("utf-8", "replace")))
        else:
            asked.answer.set_result(bytes(asked.received))

    def _question(self, frame: Frame, asked: _Asked) -> None:
        asks = asked.asks
        if asks is None or asks.left <= 0 or (asked.answering is not None and not asked.answering.done()):
            raise SandboxError("the runner sent a request that is not allowed now")
        asks.left -= 1
        if not asked.answer.done():
            asked.answering = asyncio.ensure_future(self._answer(frame.number, asked, asks, frame.body))
