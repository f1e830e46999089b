"""Faults of a policy's server are its own: retried, then an infrastructure failure, and never a score."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import socket
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from turnwise.agents.agent import Agent
from turnwise.agents.chat import ChatAgent
from turnwise.agents.named import agent_from
from turnwise.errors import TurnwiseError, UsageError
from turnwise.inference.bounded_json import loads
from turnwise.inference.http_bodies import BodyError, read_body
from turnwise.inference.policy import Sampling
from turnwise.inference.serving import replica_set
from turnwise.inference.serving.http import probing
from turnwise.inference.serving.http.client import ServerClient
from turnwise.inference.serving.limits import TimeLimits
from turnwise.inference.serving.remote_policy import RemotePolicy
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.runner import run_episodes

from ...agents.listening import listening
from ...rollouts.fakes import Count, tasks
from ...shifts import core_sample, sampled
from .faults import FAULTS, SETTINGS, SLOW, FaultyServer
from .helpers import eventually

NAMES = tuple(FAULTS)


@pytest.fixture
def faulty(models: list[Any], tokenizer: Any) -> Iterator[FaultyServer]:
    with FaultyServer(models[0], tokenizer) as server:
        yield server


async def played(
    server: FaultyServer, tokenizer: Any, count: int, *, limits: TimeLimits, **options: Any
) -> dict[int, Episode]:
    """Episodes by the seeds of their tasks."""
    client = ServerClient(server.url, timeout=limits.max_wait)
    client.vocabulary = len(tokenizer)
    policy = RemotePolicy([client], patience=limits.patience, request_timeout=limits.request, backoff=0.01)
    agent: Agent = ChatAgent(policy, tokenizer, sampling=Sampling(max_tokens=4), context="last:1")
    chosen = RunOptions(**{"concurrency": count, "backoff": 0.01, **options})
    found = {e.task.seed: e async for e in run_episodes(Count, agent, tasks(count), options=chosen)}
    await policy.close()
    return found


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) >= 110


@pytest.mark.slow
@pytest.mark.parametrize("size", [20, pytest.param(len(NAMES), id="all", marks=pytest.mark.shift)])
async def test_a_server_that_is_always_at_fault_fails_episodes_and_none_is_scored(
    faulty: FaultyServer, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(replica_set, "LONGEST_BACKOFF", 0.05)
    names = [name for name in NAMES if not name.startswith(SLOW) and name not in SETTINGS]
    names = sampled(names, size, key="faults of a server")
    faulty.fail_by_session(*names)
    count = len(names)
    limits, options = TimeLimits(60.0, 60.0), {"concurrency": 12, "retries": 0, "turn_timeout": 0.001}
    episodes = await played(faulty, tokenizer, count, limits=limits, **options)
    assert len(faulty.sent) > 0.8 * count, "an episode may find the server down because of the others"
    for episode in episodes.values():
        assert episode.outcome is Outcome.INFRA_FAILED, episode.error
        assert (episode.score, episode.turns) == (None, ()), "nothing that a faulty answer says is recorded"
        assert faulty.url in str(episode.error)
        assert "\n" not in str(episode.error)
        assert not {"Traceback", "ChatAgent", "ContractError"} & set(str(episode.error).replace(":", " ").split())
        assert all(letter.isprintable() for letter in str(episode.error)), "a terminal obeys what it is shown"


@pytest.mark.slow
async def test_a_fault_that_passes_costs_nothing(faulty: FaultyServer, tokenizer: Any) -> None:
    limits, count = TimeLimits(20.0, 120.0), len(NAMES) - sum(name.startswith(SLOW) for name in NAMES)
    whole = await played(faulty, tokenizer, count, limits=limits)
    faulty.fail_by_session(*(name for name in NAMES if not name.startswith(SLOW)), first=True)
    again = await played(faulty, tokenizer, count, limits=limits)
    assert faulty.sent.total() == count
    assert {episode.outcome for episode in again.values()} == {Outcome.COMPLETED}
    for seed, episode in whole.items():
        assert again[seed].attempts == 1, "a request is sent again, and not an episode played again"
        for turn, other in zip(episode.turns, again[seed].turns, strict=True):
            assert turn.action_ids == other.action_ids, "the good answer is the one that is recorded"
            assert turn.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(SLOW)])
async def test_what_never_ends_at_a_server_that_works_is_given_up_in_time_and_the_policys(
    faulty: FaultyServer, tokenizer: Any, name: str
) -> None:
    faulty.fail_by_session(name, first=True)
    (episode,) = (await played(faulty, tokenizer, 1, limits=TimeLimits(2.0, 60.0), retries=0)).values()
    assert faulty.sent[name] == 1, "it was sent again"
    assert episode.outcome is Outcome.POLICY_FAILED, episode.error
    assert "request_timeout" in str(episode.error)


@pytest.mark.slow
async def test_what_hangs_at_a_server_that_is_gone_is_not_the_policys(faulty: FaultyServer, tokenizer: Any) -> None:
    faulty.fail("hang")
    task = asyncio.ensure_future(played(faulty, tokenizer, 1, limits=TimeLimits(1.0, 2.0), retries=0))
    faulty.draw, drawn = (lambda asked: "hang" if asked.headers.get("x-session-id") else None), faulty.draw
    await eventually(lambda: faulty.sent["hang"] > 0)
    faulty.draw = drawn  # by now whatever is sampled hangs
    (episode,) = (await task).values()
    assert episode.outcome is Outcome.INFRA_FAILED, episode.error


@pytest.mark.parametrize("name", SETTINGS)
async def test_a_setting_of_the_servers_ends_the_run_with_its_remedy(
    faulty: FaultyServer, tokenizer: Any, name: str
) -> None:
    faulty.fail_by_session(name)
    with pytest.raises(UsageError, match="start it with --generation-config vllm"):
        await played(faulty, tokenizer, 1, limits=TimeLimits(30.0, 60.0))


HALF = ("prompt cut", "log-probability null", "body empty", "connection cut", "no answer")


@pytest.mark.slow
@pytest.mark.parametrize("name", core_sample(HALF, 2, key="one answer in two"))
async def test_one_answer_in_two_is_wrong(faulty: FaultyServer, tokenizer: Any, name: str) -> None:
    faulty.fail(name, share=0.5)
    episodes = await played(faulty, tokenizer, 8, limits=TimeLimits(30.0, 120.0))
    assert {episode.outcome for episode in episodes.values()} == {Outcome.COMPLETED}


# -- when a run begins ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["body cut", "choices empty", "prompt cut", "log-probabilities null", "body deep lists"]
)
async def test_a_server_that_is_always_at_fault_is_refused_at_the_start(faulty: FaultyServer, name: str) -> None:
    faulty.fail(name)
    with pytest.raises(TurnwiseError) as caught:
        await ServerClient(faulty.url).probe()
    assert faulty.url in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_list_of_models_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "VERSION_SECONDS", 0.3)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.02)

    async with listening(drip) as address:
        client = ServerClient(address)
        with pytest.raises(TurnwiseError, match="has not answered within"):
            await asyncio.wait_for(client.probe(), 60)
        await client.close()


def test_one_ctrl_c_ends_the_wait_for_a_server_that_never_speaks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, and no process reads
        clock = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        clock.start()
        with pytest.raises(KeyboardInterrupt):  # and not the error of having waited to the end
            agent_from(f"http://127.0.0.1:{silent.getsockname()[1]}")
        clock.join()


# -- bounds ---------------------------------------------------------------------------------------------------------


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces():
            yield piece


async def read(pieces: Callable[[], Iterator[bytes]], encoding: str, most: int) -> bytes:
    response = httpx.Response(200, headers={"content-encoding": encoding}, stream=_Pieces(pieces))
    return await read_body(response, most)


@pytest.mark.slow
async def test_a_bomb_is_not_unpacked_beyond_the_bound() -> None:
    packed = gzip.compress(b" " * 2**26)
    tracemalloc.start()
    with pytest.raises(BodyError, match="longer than 1,048,576 bytes"):
        await read(lambda: iter([packed]), "gzip", 2**20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2**20


async def test_what_follows_a_compressed_body_is_bounded_too() -> None:
    def pieces() -> Iterator[bytes]:
        yield gzip.compress(b"{}")
        while True:
            yield b"x" * 65536

    with pytest.raises(BodyError, match="longer than"):
        await read(pieces, "gzip", 2**20)
    assert await read(lambda: iter([gzip.compress(b"{}")]), "gzip", 64) == b"{}"


@pytest.mark.parametrize(
    "source", ["NaN", "-Infinity", "[1e999]", '{"a": 9223372036854775808}', "1" * 5000, "[" * 10**5]
)
def test_numbers_and_depth_are_bounded(source: str) -> None:
    with pytest.raises(ValueError, match=r"not JSON|too large|too deeply|digits"):
        loads(source)


# -- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [None, 0.5, 30.0, 300.0, 1e5])
@pytest.mark.parametrize("request_timeout", [None, 0.1, 200.0, 900.0])
@pytest.mark.parametrize("patience", [None, 0.2, 60.0, 900.0])
def test_time_limits_nest_or_are_refused_in_words(
    turn: float | None, request_timeout: float | None, patience: float | None
) -> None:
    given = (request_timeout or 0) + (patience or 0)
    whole = request_timeout is not None and patience is not None
    if turn is not None and given >= (turn if whole else 0.9 * turn):
        with pytest.raises(UsageError, match="do not fit into turn_timeout"):
            TimeLimits.within(turn, request=request_timeout, patience=patience)
        return
    limits = TimeLimits.within(turn, request=request_timeout, patience=patience)
    assert 0 < limits.request < limits.max_wait
    assert turn is None or limits.max_wait < turn
    assert request_timeout in (None, limits.request)
    assert patience in (None, limits.patience)


def test_the_defaults_leave_a_request_most_of_the_turn() -> None:
    assert TimeLimits.within(300.0) == TimeLimits(210.0, 60.0)
    assert TimeLimits.within(None) == TimeLimits(600.0, 60.0), "no limit of a turn is not that of a short one"
