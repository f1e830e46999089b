"""Requests and answers, with a runner that is played by the test: a forgery ends the sandbox, and nothing hangs."""

from __future__ import annotations

import asyncio
import socket
from asyncio import StreamReader, StreamWriter

import pytest

from turnwise.errors import SandboxError, ToolError
from turnwise.sandboxes.result import Stats
from turnwise.sandboxes.runner.channel import Channel
from turnwise.sandboxes.runner.frames import message
from turnwise.sandboxes.runner.runner_process import RunnerProcess
from turnwise.sandboxes.runner.turnwise_runner.wire import Incoming


class PlayedProcess(RunnerProcess):
    """A process whose runner is the test at the other end."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.id, self.reader, self.writer, self.killed = "played", reader, writer, False

    async def kill(self) -> None:
        self.killed = True
        self.writer.close()

    async def stats(self) -> Stats:
        return Stats(None, None, None, None, None, 0.0)

    async def died(self) -> str:
        return "the play is over"


class Played:
    """Both ends: the channel, and a runner that says what the test has it say."""

    def __init__(self, process: PlayedProcess, reader: StreamReader, writer: StreamWriter) -> None:
        self.process, self.channel, self.reader, self.writer = process, Channel(process), reader, writer
        self._incoming, self._heard = Incoming(), list[tuple[int, list[bytes]]]()

    async def heard(self) -> tuple[int, list[bytes]]:
        """The next request."""
        while not self._heard:
            self._heard += self._incoming.feed(await self.reader.read(65536))
        return self._heard.pop(0)


@pytest.fixture
async def played() -> Played:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    process = PlayedProcess(reader, writer)
    return Played(process, *await asyncio.open_unix_connection(sock=theirs))


async def close(played: Played) -> None:
    await played.channel.end("the test is over")
    played.writer.close()


async def test_answers_may_come_in_another_order(played: Played) -> None:
    first, second = (asyncio.ensure_future(played.channel.ask(word)) for word in (b"first", b"second"))
    for _ in range(2):
        number, fields = await played.heard()
        played.writer.write(message(number, [b"re: " + fields[0]]))
        if fields[0] == b"first":
            later = number
    assert later
    assert (await second).endswith(b"re: second")
    assert (await first).endswith(b"re: first")
    await close(played)


async def test_a_refusal_is_for_the_one_who_asked(played: Played) -> None:
    asked = asyncio.ensure_future(played.channel.ask(b"what"))
    number, _ = await played.heard()
    played.writer.write(b"\0\0\0\4" + number.to_bytes(4, "big") + b"\2" + b"nope")
    with pytest.raises(ToolError, match="nope"):
        await asked
    assert played.channel.alive
    await close(played)


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        (message(99, [b"done"]), "an answer without a request"),
        (b"\xff" * 40, "not a message of the runner"),
        (b"\0\0\0\0\0\0\0\1\7", "not a message of the runner"),
        (message(1, [b"x" * 100]), "larger than 10 bytes"),
    ],
    ids=["an answer to nothing", "noise", "a kind that there is not", "more than was asked for"],
)
async def test_what_is_forged_ends_the_sandbox(played: Played, forged: bytes, why: str) -> None:
    asked = asyncio.ensure_future(played.channel.ask(b"what", most=10))
    assert (await played.heard())[0] == 1
    played.writer.write(forged)
    with pytest.raises(SandboxError, match=why):
        await asked
    with pytest.raises(SandboxError, match=why):
        await played.channel.ask(b"again")
    assert played.process.killed
    await close(played)


async def test_when_the_runner_is_gone_everyone_is_told_why(played: Played) -> None:
    asked = [asyncio.ensure_future(played.channel.ask(b"what")) for _ in range(3)]
    await played.heard()
    played.writer.close()
    for one in asked:
        with pytest.raises(SandboxError, match="the play is over"):
            await one
    assert not played.channel.alive
    await close(played)


async def test_a_frame_that_is_torn_by_the_end_is_no_answer(played: Played) -> None:
    asked = asyncio.ensure_future(played.channel.ask(b"what"))
    number, _ = await played.heard()
    played.writer.write(message(number, [b"done"])[:-2])
    played.writer.close()
    with pytest.raises(SandboxError, match="has ended"):
        await asked
    await close(played)


async def test_a_cancelled_request_is_taken_back_and_its_answer_dropped(played: Played) -> None:
    asked = asyncio.ensure_future(played.channel.ask(b"what"))
    number, _ = await played.heard()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    cancelling, fields = await played.heard()
    assert fields == [b"cancel", b"%d" % number]
    played.writer.write(message(number, [b"too late"]) + message(cancelling, []))
    again = asyncio.ensure_future(played.channel.ask(b"next"))
    number, _ = await played.heard()
    played.writer.write(message(number, []))
    assert await again == b""
    await close(played)


async def test_a_runner_that_does_not_answer_is_given_up(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandboxes.runner.channel.PATIENCE", 0.05)
    with pytest.raises(SandboxError, match="did not answer"):
        await played.channel.ask(b"what")
    assert played.process.killed
    await close(played)
