"""One process leads, and the others follow: what they hear, what they call, and how it ends."""

from __future__ import annotations

import asyncio
import queue
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from turnwise.errors import DivergedError, InfrastructureError
from turnwise.trainers.learning.joint_calls import JointCalls
from turnwise.trainers.learning.main_process import MainStopped, StoppedByMain
from turnwise.trainers.learning.parallel import ProcessGroup


class Wire:
    """Connects two processes, which here are threads."""

    def __init__(self) -> None:
        self.said: queue.Queue[Any] = queue.Queue()


class Connected(ProcessGroup):
    """A process whose broadcasts go over a wire."""

    __slots__ = ("wire",)
    wire: Wire

    def __init__(self, rank: int, wire: Wire) -> None:
        super().__init__(rank, 2)
        object.__setattr__(self, "wire", wire)

    def broadcast(self, word: Any = None) -> Any:
        if self.is_main:
            self.wire.said.put(word)
            return word
        return self.wire.said.get(timeout=60)


@dataclass
class Counter:
    """An object that every process has."""

    name: str = "a counter"
    calls: list[tuple[str, Any]] = field(default_factory=list)

    def add(self, number: int, *, twice: bool = False) -> int:
        self.calls.append(("add", number))
        self.inside()
        return number * (2 if twice else 1)

    def inside(self) -> None:
        self.calls.append(("inside", None))

    async def send(self, version: int) -> None:
        await asyncio.sleep(0)
        self.calls.append(("send", version))

    def stop(self, error: Exception) -> None:
        self.calls.append(("stop", type(error).__name__))
        raise error


def follower(wire: Wire) -> tuple[threading.Thread, Counter, list[Any]]:
    calls, counter, ended = JointCalls(Connected(1, wire)), Counter(), list[Any]()
    calls.lead("counter", counter, "add", "send", "stop")

    def life() -> None:
        try:
            ended.append(asyncio.run(calls.follow()))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=life, daemon=True)
    thread.start()
    return thread, counter, ended


def leader(wire: Wire) -> tuple[JointCalls, Counter, Counter]:
    calls, counter = JointCalls(Connected(0, wire)), Counter()
    return calls, calls.lead("counter", counter, "add", "send", "stop"), counter


async def test_a_call_is_made_once_in_every_process() -> None:
    wire = Wire()
    thread, theirs, ended = follower(wire)
    calls, led, mine = leader(wire)
    assert isinstance(led, Counter)
    assert led.name == "a counter", "what is not announced is the object's own"
    assert led.add(3, twice=True) == 6
    await led.send(1)
    led.inside()
    calls.end("the result")
    await asyncio.to_thread(thread.join, 60)
    assert ended == ["the result"]
    shared = [("add", 3), ("inside", None), ("send", 1)]
    assert theirs.calls == shared, "calls within a call are not announced, nor is what only process 0 does"
    assert mine.calls == [*shared, ("inside", None)]


@pytest.mark.parametrize(
    "error", [DivergedError("nan"), MainStopped("no"), StoppedByMain()], ids=lambda e: type(e).__name__
)
async def test_a_follower_outlives_what_stops_process_0_as_well(error: Any) -> None:
    wire = Wire()
    thread, theirs, ended = follower(wire)
    calls, led, _ = leader(wire)
    with pytest.raises(type(error)):
        led.stop(error)
    if not isinstance(error, DivergedError):
        calls._torn = False  # process 0 got another error than the others, which it announced itself
    led.add(1)
    calls.leave()
    await asyncio.to_thread(thread.join, 60)
    assert theirs.calls[-2:] == [("add", 1), ("inside", None)]
    assert isinstance(ended[0], StoppedByMain), "a script without a result was stopped"


async def test_an_error_of_one_process_ends_it() -> None:
    wire = Wire()
    thread, _, ended = follower(wire)
    calls, led, _ = leader(wire)
    with pytest.raises(InfrastructureError):
        led.stop(InfrastructureError("out of memory"))
    calls.leave()
    calls.end()
    await asyncio.to_thread(thread.join, 60)
    assert isinstance(ended[0], InfrastructureError)
    assert wire.said.empty(), "nothing is announced after a call that only some may have finished"


def test_one_process_has_no_stand_in_and_announces_nothing() -> None:
    calls, counter = JointCalls(ProcessGroup()), Counter()
    assert calls.lead("counter", counter, "add") is counter
    assert calls.call("counter", "add", 2) == 2
    calls.end("x")
    calls.leave()
