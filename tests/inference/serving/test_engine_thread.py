"""An engine that only one thread touches: pauses between tokens, exact versions, errors that reach all callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from turnwise.errors import ContractError, InfrastructureError
from turnwise.inference.policy import Finish, Sampling
from turnwise.inference.serving.engine.thread import EngineThread, Request, StepOutput
from turnwise.inference.serving.server import Pause, ServerResponse


class Counting:
    """Samples 1, 2, 3, … for every request; a step waits until it is let."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.turnstile = threading.Semaphore(0)
        self.running: dict[str, tuple[int, Sampling]] = {}
        self.aborted: list[str] = []
        self.closed = False
        self.broken: Exception | None = None

    def here(self) -> None:
        assert threading.get_ident() == self.thread, "only the thread that made the engine may touch it"

    def add(self, name: str, prompt: Sequence[int], sampling: Sampling, adapter: str | None) -> None:
        self.here()
        if not prompt:
            raise ValueError("an empty prompt")
        if adapter is not None:
            raise LookupError(f"no adapter {adapter}")
        self.running[name] = (0, sampling)

    def step(self) -> list[StepOutput]:
        self.here()
        self.turnstile.acquire()
        if self.broken is not None:
            raise self.broken
        parts = []
        for name, (done, sampling) in list(self.running.items()):
            last = done + 1 == sampling.max_tokens
            self.running[name] = (done + 1, sampling)
            if last:
                del self.running[name]
            parts.append(StepOutput(name, (done + 1,), [-0.5], 3, "length" if last else None))
        return parts

    def abort(self, name: str) -> None:
        self.here()
        self.running.pop(name, None)
        self.aborted.append(name)

    def close(self) -> None:
        self.here()
        self.closed = True


class Bench:
    """A started thread, its engine, and requests by number."""

    def __init__(self) -> None:
        self.thread = EngineThread(Counting)
        self.thread.start()
        self.engine = self.thread.engine
        self.count = 0

    def ask(
        self, tokens: int, prompt: tuple[int, ...] = (7, 8), adapter: str | None = None
    ) -> asyncio.Task[ServerResponse]:
        loop = asyncio.get_running_loop()
        self.count += 1
        sampling = Sampling(max_tokens=tokens)
        request = Request(str(self.count), prompt, sampling, adapter, loop, loop.create_future())
        return asyncio.ensure_future(self.thread.generate(request))

    def let(self, steps: int) -> None:
        for _ in range(steps):
            self.engine.turnstile.release()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - another thread makes it true
            await asyncio.sleep(0.001)


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    try:
        yield made
    finally:
        made.let(1000)
        made.thread.stop()
        assert made.engine.closed


async def test_requests_share_steps_and_come_back_whole() -> None:
    async with bench() as b:
        short, long = b.ask(2), b.ask(5)
        b.let(20)
        one, other = await short, await long
        assert one.completion.token_ids == (1, 2)
        assert other.completion.token_ids == (1, 2, 3, 4, 5)
        assert other.completion.finish is Finish.LENGTH
        assert other.completion.logprobs == (-0.5,) * 5
        assert (other.prompt_ids, other.cached, other.spans) == ((7, 8), 3, ((0, 0, 5),))


async def test_keep_freezes_and_tells_the_version_of_every_token() -> None:
    async with bench() as b:
        task = b.ask(5)
        await b.until(lambda: "1" in b.engine.running)
        b.let(2)
        await b.until(lambda: b.engine.running["1"][0] == 2)
        pausing = asyncio.ensure_future(b.thread.pause(Pause.KEEP))
        await asyncio.sleep(0)
        b.let(1)  # the step that it is in
        await pausing
        so_far = b.engine.running["1"][0]
        late = b.ask(1)
        b.let(10)
        assert await b.thread.call(lambda: b.engine.running["1"][0]) == so_far, "a frozen request went on"

        def change() -> None:
            b.thread.version = 7

        await b.thread.call(change)
        await b.thread.resume()
        served = await task
        assert served.completion.versions == (0,) * so_far + (7,) * (5 - so_far)
        assert served.spans == ((0, 0, so_far), (7, so_far, 5))
        assert (await late).completion.versions == (7,), "what is asked during a pause is of the weights after it"


async def test_wait_lets_them_end_and_keeps_newcomers_out() -> None:
    async with bench() as b:
        task = b.ask(3)
        await b.until(lambda: "1" in b.engine.running)
        pausing = asyncio.ensure_future(b.thread.pause(Pause.WAIT))
        await asyncio.sleep(0)
        late = b.ask(2)
        assert not pausing.done(), "a request is still under way"
        b.let(10)
        await pausing
        assert (await task).completion.token_ids == (1, 2, 3)
        assert not late.done()
        await b.thread.resume()
        b.let(10)
        assert (await late).completion.token_ids == (1, 2)


@pytest.mark.parametrize("mode", list(Pause))
async def test_pausing_what_is_idle_returns_and_twice_is_once(mode: Pause) -> None:
    async with bench() as b:
        await b.thread.pause(mode)
        await b.thread.pause(mode)
        await b.thread.resume()
        b.let(5)
        assert (await b.ask(1)).completion.token_ids == (1,)


async def test_abort_gives_what_there_is() -> None:
    async with bench() as b:
        task = b.ask(100)
        b.let(3)
        await b.until(lambda: b.engine.running.get("1", (0, None))[0] >= 3)
        pausing = asyncio.ensure_future(b.thread.pause(Pause.ABORT))
        await asyncio.sleep(0)
        b.let(1)
        await pausing
        served = await task
        assert served.completion.finish is Finish.ABORT
        assert served.completion.token_ids[:3] == (1, 2, 3)
        assert b.engine.aborted == ["1"]


async def test_resuming_lets_go_a_pause_that_still_waits() -> None:
    async with bench() as b:
        task = b.ask(2)
        await b.until(lambda: "1" in b.engine.running)
        pausing = asyncio.ensure_future(b.thread.pause(Pause.WAIT))
        await asyncio.sleep(0)
        resuming = asyncio.ensure_future(b.thread.resume())
        b.let(10)
        await resuming
        await pausing
        await task


async def test_a_cancelled_request_is_withdrawn() -> None:
    async with bench() as b:
        task, other = b.ask(100), b.ask(4)
        await b.until(lambda: "1" in b.engine.running)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        b.let(10)
        assert (await other).completion.token_ids == (1, 2, 3, 4)
        await b.until(lambda: b.engine.aborted == ["1"])
        assert "1" not in b.engine.running, "nobody waits for it any more"


async def test_a_request_the_engine_refuses_fails_alone() -> None:
    async with bench() as b:
        b.let(10)
        with pytest.raises(ContractError, match="an empty prompt"):
            await b.ask(1, prompt=())
        with pytest.raises(InfrastructureError, match="no adapter v3"):
            await b.ask(1, adapter="v3")
        assert (await b.ask(1)).completion.token_ids == (1,)


async def test_an_engine_that_fails_fails_everything_that_waits_and_all_that_comes() -> None:
    async with bench() as b:
        task = b.ask(3)
        await b.until(lambda: "1" in b.engine.running)
        b.engine.broken = RuntimeError("out of memory")
        b.let(1)
        with pytest.raises(InfrastructureError, match="failed: out of memory"):
            await task
        with pytest.raises(InfrastructureError, match="failed: out of memory"):
            await b.ask(1)
        with pytest.raises(InfrastructureError):
            await b.thread.pause(Pause.KEEP)


async def test_what_is_told_to_it_may_fail_without_harm() -> None:
    async with bench() as b:
        with pytest.raises(InfrastructureError, match="by zero"):
            await b.thread.call(lambda: 1 // 0)
        assert await b.thread.call(lambda: 5) == 5


async def test_stopping_fails_what_is_under_way_or_held() -> None:
    b = Bench()
    running = b.ask(5)
    await b.until(lambda: "1" in b.engine.running)
    b.let(1)
    await b.until(lambda: b.engine.running["1"][0] == 1)
    stopping = asyncio.ensure_future(asyncio.to_thread(b.thread.stop))
    await b.until(lambda: not b.thread._commands.empty())
    b.let(1)
    await stopping
    with pytest.raises(InfrastructureError, match="was stopped"):
        await running
    with pytest.raises(InfrastructureError, match="was stopped"):
        await b.ask(1)
    b.thread.stop()
    b.thread.start()
    b.engine = b.thread.engine
    b.let(5)
    assert (await b.ask(1)).completion.token_ids == (1,), "it can be started again"
    b.thread.stop()


def test_an_answer_for_a_loop_that_is_gone_harms_nobody() -> None:
    b = Bench()

    async def leave() -> None:
        b.ask(2)
        await b.until(lambda: bool(b.engine.running))

    asyncio.run(leave())
    b.let(10)

    async def again() -> None:
        b.let(10)
        assert (await b.ask(1)).completion.token_ids == (1,)

    asyncio.run(again())
    b.thread.stop()


def test_an_engine_that_cannot_be_made_says_why() -> None:
    def make() -> Counting:
        raise OSError("no such model")

    thread = EngineThread(make)
    with pytest.raises(OSError, match="no such model"):
        thread.start()
    assert not thread.alive
    thread.stop()
