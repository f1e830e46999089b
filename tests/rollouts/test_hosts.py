"""Hosts: the same verbs with the same meaning, wherever the environment lives."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, ClassVar

import cloudpickle
import pytest

import turnwise as tw
from turnwise.errors import (
    ContractError,
    EnvironmentDiedError,
    EnvironmentFailedError,
    InfrastructureError,
    UsageError,
)
from turnwise.rollouts.host_process import ProcessHost
from turnwise.rollouts.hosts import AwaitingHost, Host, InlineHost, ThreadHost

from . import fakes
from .fakes import Count

cloudpickle.register_pickle_by_value(fakes)  # the child process cannot import a test folder

HOSTS = pytest.mark.parametrize("kind", [InlineHost, ThreadHost, AwaitingHost, ProcessHost])
TASK = tw.TaskSpec("Count", seed=5)


class Shop(tw.ToolEnv):
    """Sells books."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.sold: list[int] = []
        return "Sell book 3."

    @tw.tool
    def sell(self, book: int) -> str:
        """Sell one book.

        Args:
            book: its number.
        """
        self.sold.append(book)
        return f"sold {self.sold}"

    def judge(self) -> tw.Score:
        return tw.Score(success=3 in self.sold)


cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["Shop"]))


class opened:
    """A host for the length of a ``with`` block."""

    def __init__(self, kind: Any, build: Callable[[], Any]) -> None:
        self.kind, self.build = kind, build

    async def __aenter__(self) -> Host:
        host: Host = await self.kind.open(self.build)
        self.host = host
        return host

    async def __aexit__(self, *_: object) -> None:
        await self.host.close()


@pytest.mark.slow
@HOSTS
async def test_an_episode_is_the_same_everywhere(kind: Any) -> None:
    here = Count()
    first, info = here.reset(options={"task": TASK})
    async with opened(kind, Count) as host:
        for _ in range(2):
            observation, there = await host.reset(TASK)
            assert (observation, there) == (first, info)
            assert not host.busy
        for text in ("a", "b", "c"):
            assert await host.step(tw.Action(text)) == here.step(text)
        with pytest.raises(EnvironmentFailedError, match="ContractError"):
            await host.step(tw.Action("after the end"))


@pytest.mark.slow
@HOSTS
async def test_oracle_and_random_answer_with_actions(kind: Any) -> None:
    async with opened(kind, Count) as host:
        await host.reset(TASK)
        assert (await host.oracle()).text == "best 0"
        drawn = [(await host.random(seed)).text for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2], "random play is a function of its seed"


@pytest.mark.slow
@HOSTS
async def test_tools_are_described(kind: Any) -> None:
    async with opened(kind, Shop) as host:
        await host.reset(tw.TaskSpec("Shop"))
        (tool,) = host.tools
        assert tool.to_json() == Shop().tools[0].to_json()
        observation, *_ = await host.step(tw.Action(tool_calls=(tw.ToolCall("sell", {"book": 3}),)))
        assert observation.text == "sold [3]"


@HOSTS
async def test_an_action_nested_too_deeply_is_answered_everywhere(kind: Any) -> None:
    here = Shop()
    here.reset(options={"task": tw.TaskSpec("Shop")})
    async with opened(kind, Shop) as host:
        await host.reset(tw.TaskSpec("Shop"))
        for depth in (150, 900, 5000):
            nested: list[Any] = []
            for _ in range(depth):
                nested = [nested]
            call = tw.ToolCall("sell", {"book": nested})
            there = await host.step(tw.Action(tool_calls=(call,)))
            assert there == here.step(call)
            assert "nested too deeply: at most 100" in there[0].text
        sold = await host.step(tw.Action(tool_calls=(tw.ToolCall("sell", {"book": 1}),)))
        assert sold[0].text == "sold [1]", "the environment lives"


@pytest.mark.slow
@HOSTS
async def test_a_fork_is_independent_and_outlives_its_origin(kind: Any) -> None:
    host = await kind.open(partial(Shop))
    await host.reset(tw.TaskSpec("Shop"))

    async def sell(where: Host, book: int) -> str:
        stepped = await where.step(tw.Action(tool_calls=(tw.ToolCall("sell", {"book": book}),)))
        return str(stepped[0].text)

    await sell(host, 1)
    fork = await host.fork()
    assert await sell(host, 2) == "sold [1, 2]"
    assert await sell(fork, 3) == "sold [1, 3]", "what happens to the origin does not happen to the fork"
    await host.close()
    assert await sell(fork, 4) == "sold [1, 3, 4]"
    again = await fork.fork()
    assert await sell(again, 5) == "sold [1, 3, 4, 5]"
    await fork.close()
    await again.close()


class Odd(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Raises(tw.TurnEnv):
    """Raises a given error at a given place."""

    def __init__(self, where: str, what: Callable[[], BaseException]) -> None:
        super().__init__()
        self.where, self.what = where, what
        self.strike("open")

    def strike(self, where: str) -> None:
        if self.where == where:
            raise self.what()

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.strike("reset")
        return "begin"

    def act(self, action: tw.Action) -> str:
        self.strike("step")
        return "on"

    def oracle(self) -> str:
        self.strike("oracle")
        return "best"


async def reach(kind: Any, where: str, what: Callable[[], BaseException]) -> None:
    async with opened(kind, lambda: Raises(where, what)) as host:
        await host.reset(tw.TaskSpec("Raises"))
        await host.step(tw.Action("x"))
        await host.oracle()


@pytest.mark.slow
@HOSTS
@pytest.mark.parametrize("where", ["open", "reset", "step", "oracle"])
@pytest.mark.parametrize(
    "what", [lambda: ValueError("bad\nvalue"), lambda: Odd(1, 2), lambda: SystemExit(3), lambda: StopIteration()]
)
async def test_whatever_an_environment_raises_is_an_infrastructure_failure(kind: Any, where: str, what: Any) -> None:
    error = what()
    message = f"environment raised in {where}: {type(error).__name__}"
    with pytest.raises(EnvironmentFailedError, match=message) as caught:
        await reach(kind, where, what)
    assert "test_hosts.py" in str(caught.value), "it says where"
    assert str(error).partition("\n")[0] in str(caught.value), "and what"


@pytest.mark.slow
@HOSTS
@pytest.mark.parametrize("where", ["open", "reset", "step"])
async def test_usage_and_infrastructure_errors_stay_what_they_are(kind: Any, where: str) -> None:
    for known in (UsageError("docker is not installed"), InfrastructureError("the sandbox is lost")):
        with pytest.raises(type(known), match=str(known)) as caught:
            await reach(kind, where, partial(copy, known))
        assert type(caught.value) is type(known)


@pytest.mark.slow
@HOSTS
async def test_a_missing_oracle_is_the_callers_to_hear_of(kind: Any) -> None:
    with pytest.raises(ContractError, match="no oracle"):
        await reach(kind, "oracle", lambda: ContractError("Raises has no oracle"))


async def test_a_thread_bound_resource_stays_on_its_thread() -> None:
    class Bound(Count):
        def __init__(self) -> None:
            super().__init__()
            self.thread = threading.get_ident()

        def act(self, action: tw.Action) -> Any:
            assert threading.get_ident() == self.thread, "used on another thread than it was made on"
            return super().act(action)

    async with opened(ThreadHost, Bound) as host:
        await host.reset(TASK)
        await host.step(tw.Action("x"))


async def test_a_call_that_was_cancelled_leaves_the_host_busy() -> None:
    gate = threading.Event()

    class Gated(Count):
        def act(self, action: tw.Action) -> Any:
            gate.wait(30)
            return super().act(action)

    host = await ThreadHost.open(Gated)
    await host.reset(TASK)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(host.step(tw.Action("x")), 0.05)
    assert host.busy, "the pool must not lend it again"
    host.abandon()
    gate.set()


@pytest.mark.parametrize("kind", [ThreadHost, AwaitingHost])
@pytest.mark.parametrize("made", [False, True])
async def test_a_fork_that_nobody_receives_is_closed(kind: Any, made: bool) -> None:
    gate, forking, forked, before = threading.Event(), threading.Event(), threading.Event(), set(threading.enumerate())

    class Forks(Count):
        closed: ClassVar[list[Count] | None] = []

        def fork(self) -> Any:
            forking.set()
            gate.wait(30)
            fork = super().fork()
            forked.set()
            return fork

    host = await kind.open(Forks)
    await host.reset(TASK)
    task = asyncio.create_task(host.fork())
    await asyncio.to_thread(forking.wait, 30)
    if made:
        gate.set()
        forked.wait(30)  # and this loop, which waits here, does not know
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    host.abandon()
    for thread in set(threading.enumerate()) - before:
        if thread.name == "turnwise-env":
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive(), "the thread of a fork is left"
    assert Forks.closed is not None
    assert len(Forks.closed) == 2, "the fork is left"


async def test_a_cancellation_that_meets_the_end_of_a_close_is_not_lost() -> None:
    host = await ThreadHost.open(Count)
    closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    host._worker.call = lambda function, verb: closed  # type: ignore[method-assign]
    task = asyncio.create_task(host.close())
    await asyncio.sleep(0)
    closed.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.slow
async def test_a_process_ends_though_the_close_of_its_last_host_is_canceled() -> None:
    host = await ProcessHost.open(Count)
    async with host._child._turn:  # a call of another host is under way
        task = asyncio.create_task(host.close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert host.ended


@pytest.mark.slow
async def test_a_process_is_gone_after_close_and_after_abandon() -> None:
    for leave in ("close", "abandon"):
        host = await ProcessHost.open(Count)
        await host.reset(TASK)
        pid = host.pid
        assert pid != os.getpid()
        if leave == "close":
            await host.close()
            await host.close()
        else:
            host.abandon()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
async def test_a_call_cut_short_does_not_answer_the_next_one() -> None:
    class Sleeps(tw.TurnEnv):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return "begin"

        def act(self, action: tw.Action) -> str:
            threading.Event().wait(30)
            return "late"

    host = await ProcessHost.open(Sleeps)
    await host.reset(tw.TaskSpec("Sleeps"))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(host.step(tw.Action("x")), 0.1)
    with pytest.raises(EnvironmentDiedError):
        await host.reset(tw.TaskSpec("Sleeps"))
    host.abandon()


async def test_what_cannot_travel_to_a_process_is_a_usage_error() -> None:
    lock = threading.Lock()

    def build() -> Any:
        return lock

    with pytest.raises(UsageError, match="use isolation='thread'"):
        await ProcessHost.open(build)


@pytest.mark.slow
async def test_a_child_ends_when_its_parent_lets_go_of_the_pipe() -> None:
    host = await ProcessHost.open(Count)
    host._child._writer.close()
    assert await asyncio.to_thread(host._child.process.wait, 20) == 0
    host.abandon()
