"""Leases over a socket: answered once, canceled in order, and lost with their worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from turnwise.errors import InfrastructureError
from turnwise.rollouts.cluster.lease_channel import HEADER, LONGEST_KEY, LeaseChannel, LeaseServer, WorkerLostError

HOST = "127.0.0.1"


class Panic(BaseException):
    """A panic of a library in Rust: not an ``Exception``."""


class Player:
    """A worker that plays a lease when the test lets it."""

    def __init__(self) -> None:
        self.started: list[bytes] = []
        self.canceled: list[bytes] = []
        self.go = asyncio.Event()
        self.lost: list[str] = []
        self.server = LeaseServer(self.play)

    async def play(self, lease: bytes) -> bytes:
        """Answer with the lease, twice."""
        self.started.append(lease)
        try:
            if lease.startswith(b"slow"):
                await self.go.wait()
            if lease == b"panic":
                raise Panic
            if lease == b"cancel":
                raise asyncio.CancelledError
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # closing an environment takes a moment
            self.canceled.append(lease)
            raise
        return 2 * lease


@pytest.fixture
async def player() -> AsyncIterator[Player]:
    made = Player()
    yield made
    await made.server.close()


@pytest.fixture
async def channel(player: Player) -> AsyncIterator[LeaseChannel]:
    port = await player.server.open(HOST, "key")
    opened = await LeaseChannel.open((HOST, port), "key", player.lost.append)
    yield opened
    opened.close("the test is over")
    opened.transport.abort()
    await opened.ended.wait()


async def left(writer: asyncio.StreamWriter) -> None:
    """Close a connection."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_each_lease_gets_its_own_answer_whatever_the_order_and_size(
    player: Player, channel: LeaseChannel
) -> None:
    slow = asyncio.create_task(channel.play(b"slow"))
    long = b"x" * 3_000_000
    answers = await asyncio.gather(*map(channel.play, (b"a", long, b"b")))
    assert answers == [b"aa", 2 * long, b"bb"]
    assert not slow.done(), "a fast lease does not wait for a slow one"
    player.go.set()
    assert await slow == b"slowslow"
    assert not channel._waiting


async def test_who_cancels_waits_until_nothing_of_the_lease_runs(player: Player, channel: LeaseChannel) -> None:
    task = asyncio.create_task(channel.play(b"slow"))
    await until(lambda: len(player.started) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert player.canceled == [b"slow"]
    assert (player.server.playing, channel._waiting) == (set(), {})


async def test_a_lease_that_is_canceled_before_it_starts_is_answered(player: Player, channel: LeaseChannel) -> None:
    task = asyncio.create_task(channel.play(b"slow"))
    await asyncio.sleep(0)  # the lease and its cancellation arrive together
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    assert (player.server.playing, channel._waiting) == (set(), {})


async def test_an_answer_that_comes_between_the_cancellation_and_its_message_ends_the_wait(
    player: Player, channel: LeaseChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, received = asyncio.create_task(channel.play(b"fast")), channel.received

    def canceled_first(number: int, message: bytes) -> None:
        if message == b"fastfast":
            task.cancel()  # which is raised in the task only after this answer
        received(number, message)

    monkeypatch.setattr(channel, "received", canceled_first)
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    assert (player.server.playing, channel._waiting) == (set(), {})


async def test_a_cancellation_beside_the_answer_waits_for_no_second_one(player: Player, channel: LeaseChannel) -> None:
    task = asyncio.create_task(channel.play(b"slow"))
    await asyncio.sleep(0)
    (number,) = channel._waiting
    channel.received(number, b"the answer")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task


async def test_a_lease_that_ends_without_an_answer_counts_its_worker_as_lost(
    player: Player, channel: LeaseChannel
) -> None:
    channel._on_lost = channel.close
    with pytest.raises(WorkerLostError, match="its connection broke"):
        await asyncio.wait_for(channel.play(b"panic"), 20)


async def test_a_lease_that_is_canceled_in_its_worker_is_an_error_in_one_line(channel: LeaseChannel) -> None:
    with pytest.raises(InfrastructureError, match="an episode was canceled in its worker"):
        await asyncio.wait_for(channel.play(b"cancel"), 20)


async def test_a_worker_that_cannot_be_reached_is_named_with_its_port(player: Player) -> None:
    port = await player.server.open(HOST, "key")
    await player.server.close()
    with pytest.raises(InfrastructureError, match=f"cannot reach port {port} of a worker at {HOST}"):
        await LeaseChannel.open((HOST, port), "key", player.lost.append)


async def test_a_worker_that_dies_is_known_before_its_leases_are_lost(player: Player, channel: LeaseChannel) -> None:
    order: list[str] = []

    def lost(why: str) -> None:
        order.append("worker")
        channel.close(why)

    channel._on_lost = lost

    async def play() -> None:
        with pytest.raises(WorkerLostError, match="connection broke"):
            await channel.play(b"slow")
        order.append("lease")

    plays = [asyncio.create_task(play()) for _ in range(2)]
    await until(lambda: len(player.started) == 2)
    channel.transport.abort()
    await asyncio.gather(*plays)
    assert order == ["worker", "lease", "lease"]
    with pytest.raises(WorkerLostError):
        await channel.play(b"another")
    await until(lambda: not player.server.playing)
    assert player.canceled == [b"slow", b"slow"], "a worker plays nothing for a driver that left"


@pytest.mark.parametrize("said", [b"wrong", b"", b"ke"])
async def test_a_stranger_gets_no_lease_played(player: Player, said: bytes) -> None:
    port = await player.server.open(HOST, "key")
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(HEADER.pack(0, len(said)) + said + HEADER.pack(1, 1) + b"a")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(1)
    assert player.started == []
    await left(writer)


async def test_a_strangers_first_message_is_not_collected(player: Player) -> None:
    port = await player.server.open(HOST, "key")
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(HEADER.pack(0, LONGEST_KEY + 1))
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(1)
    await left(writer)


async def test_messages_may_arrive_in_any_pieces(player: Player) -> None:
    port = await player.server.open(HOST, "key")
    reader, writer = await asyncio.open_connection(HOST, port)
    sent = HEADER.pack(0, 3) + b"key" + HEADER.pack(7, 1) + b"a" + HEADER.pack(8, 2) + b"bc"
    for piece in sent:
        writer.write(bytes([piece]))
        await writer.drain()
        await asyncio.sleep(0)
    got: dict[int, Any] = {}
    for _ in range(2):
        number, size = HEADER.unpack(await reader.readexactly(HEADER.size))
        got[number] = await reader.readexactly(size)
    assert got == {7: b"aa", 8: b"bcbc"}
    await left(writer)
