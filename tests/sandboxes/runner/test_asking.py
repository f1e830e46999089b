"""Code that asks while it runs: which host it asks, when, for how long, and the effect of a forged request."""

from __future__ import annotations

import asyncio
import threading

import pytest

from turnwise.errors import SandboxError, ToolError, UsageError
from turnwise.sandboxes.loop import LOOP
from turnwise.sandboxes.result import Status
from turnwise.sandboxes.runner.channel import Asks
from turnwise.sandboxes.sandbox import Sandbox

from .test_channel import Played, close, played

__all__ = ["played"]
ASK = "import turnwise_host\nturnwise_host.ask(b'who')"


async def echo(request: bytes) -> bytes:
    return request


async def test_the_answer_is_given_on_the_loop_of_whoever_runs_the_code(trusted: Sandbox) -> None:
    session = await trusted.session("python")
    threads = list[str]()

    async def who(request: bytes) -> bytes:
        await asyncio.sleep(0)
        threads.append(threading.current_thread().name)
        return request

    assert (await session.run(ASK, answer=who)).stdout.text == "b'who'\n"
    assert threads == [threading.current_thread().name], "a world belongs to the thread of its environment"
    assert await asyncio.to_thread(LOOP.wait, session.run(ASK, answer=who))
    assert threads[1] == LOOP.name, "and where the sandboxes' loop is the caller's, it is that one"


async def test_a_shell_cannot_ask(trusted: Sandbox) -> None:
    session = await trusted.session()
    with pytest.raises(UsageError, match="cannot send requests"):
        await session.run("true", answer=echo)


async def test_whoever_cancels_a_run_cancels_the_answer(trusted: Sandbox) -> None:
    session = await trusted.session("python")
    asked, ended = asyncio.Event(), asyncio.Event()

    async def slow(request: bytes) -> bytes:
        asked.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return b""

    run = asyncio.ensure_future(session.run(ASK, answer=slow))
    await asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended.is_set()


@pytest.mark.parametrize(
    "error", [ConnectionError("theirs"), TimeoutError("theirs"), SandboxError("theirs"), KeyError(1)]
)
async def test_what_the_answer_raises_comes_out_and_interrupts_the_code(trusted: Sandbox, error: Exception) -> None:
    session = await trusted.session("python")

    async def fails(request: bytes) -> bytes:
        raise error

    with pytest.raises(type(error)) as raised:
        await session.run(f"done = False\n{ASK}\ndone = True", answer=fails, timeout=20)
    assert str(raised.value) == str(error)
    for _ in range(100):
        try:
            result = await session.run("done", answer=echo)
            break
        except ToolError:  # it is being interrupted
            await asyncio.sleep(0.02)
    assert result.stdout.text == "False\n", "the session and the sandbox go on"


async def test_a_sandbox_that_ends_while_it_asks_is_an_error_of_the_sandbox(trusted: Sandbox) -> None:
    session = await trusted.session("python")

    async def destroys(request: bytes) -> bytes:
        await trusted.destroy()
        return b""

    with pytest.raises(SandboxError, match="destroyed"):
        await session.run(ASK, answer=destroys)


async def test_code_that_catches_the_interruption_is_answered_nothing_more(trusted: Sandbox) -> None:
    session = await trusted.session("python")
    heard = list[bytes]()

    async def slow(request: bytes) -> bytes:
        heard.append(request)
        await asyncio.sleep(60)
        return b""

    source = f"try:\n    {ASK.splitlines()[0]}\n    {ASK.splitlines()[1]}\nexcept KeyboardInterrupt:\n    pass\n"
    result = await session.run(f"{source}turnwise_host.ask(b'again')", timeout=0.3, answer=slow)
    assert result.status is Status.TIMEOUT
    assert heard == [b"who"], "the time was over"
    assert "Refused" in result.stderr.text


async def test_annotations_of_a_program_are_its_own(trusted: Sandbox) -> None:
    session = await trusted.session("python")
    result = await session.run("def f(x: int): pass\nf.__annotations__['x'] is int")
    assert result.stdout.text == "True\n", "the interpreter's own future imports are none of the program's"


async def test_tracebacks_leave_the_hosts_code_out(trusted: Sandbox) -> None:
    session = await trusted.session("python")
    result = await session.run(ASK)
    assert result.stderr.text.splitlines()[1:3] == ['  File "<input 1>", line 2, in <module>', f"    {ASK[21:]}"]
    assert len(result.stderr.text.splitlines()) == 4, result.stderr.text


def question(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + number.to_bytes(4, "big") + b"\3" + body


@pytest.mark.parametrize(("left", "times"), [(0, 1), (5, 2), (None, 1)], ids=["none left", "two at once", "no answer"])
async def test_a_runner_that_asks_out_of_turn_has_ended_its_sandbox(
    played: Played, left: int | None, times: int
) -> None:
    async def slow(request: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    asks = None if left is None else Asks(slow, left)
    run = asyncio.ensure_future(played.channel.ask(b"run", asks=asks))
    number, _ = await played.heard()
    played.writer.write(question(number, b"x") * times)
    with pytest.raises(SandboxError, match="a request that is not allowed now"):
        await run
    assert played.process.killed
    await close(played)


async def test_a_refusal_and_an_answer_that_is_too_large_are_told(played: Played) -> None:
    async def answer(request: bytes) -> bytes:
        if request == b"refuse":
            raise ToolError("not this")
        return bytes(2 * 2**20)

    run = asyncio.ensure_future(played.channel.ask(b"run", asks=Asks(answer, 2)))
    number, _ = await played.heard()
    for request, words in ((b"refuse", b"not this"), (b"large", b"more than 1048576")):
        played.writer.write(question(number, request))
        _, fields = await played.heard()
        assert fields[:3] == [b"answer", b"%d" % number, b"0"]
        assert words in fields[3]
    run.cancel()
    await close(played)
