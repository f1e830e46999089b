"""A remote environment is an environment: the same bytes as in process, through faults of the network as well."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import random
import re
import signal
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Response

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.agents.named import agent_from
from turnwise.envs.messages import Action, ToolCall
from turnwise.envs.named import environment
from turnwise.envs.registry import find
from turnwise.envs.remote import address as addresses
from turnwise.envs.remote import connection as connections
from turnwise.envs.remote.address import Address, remote_id, server_address
from turnwise.envs.remote.connection import Connection
from turnwise.envs.remote.episode import RemoteEpisode
from turnwise.envs.remote.problems import unreachable
from turnwise.envs.source import source_digest
from turnwise.errors import (
    ContractError,
    EnvironmentDiedError,
    EnvironmentFailedError,
    InfrastructureError,
    RequestError,
    UnknownEnvironmentError,
    UsageError,
)
from turnwise.evals.sampling import sample_tasks
from turnwise.rollouts.host_socket import SocketHost
from turnwise.rollouts.pool import EnvPool
from turnwise.sandboxes.bubblewrap.backend import BubblewrapBackend
from turnwise.service.environments.server import EnvironmentServer
from turnwise.service.environments.settings import ServeConfig
from turnwise.tasks.rng import Rng

from ..service.environment_servers import ID, LOOP, OPERATOR, TOKEN, Raw, Tally, proxy, serving, task, text_of, until

FAMILIES = ["turnwise/Maze-v0", "turnwise/Apps-v2", "turnwise/WebHTML-v1", "turnwise/Search-v1", "turnwise/CodeSQL-v2"]


@pytest.fixture(autouse=True)
def own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_TOKEN", OPERATOR)
    Tally.acted.clear()


@pytest.fixture
def server() -> Iterator[Any]:
    with serving(capacity=4) as server:
        yield server


def at(server: Any, env: str = ID) -> str:
    return f"turnwise://{server.address.removeprefix('ws://')}/{env}"


def same(one: Any, other: Any) -> None:
    """Equal, with info as a store has it."""
    assert one[:-1] == other[:-1]
    assert json.dumps(one[-1], default=repr) == json.dumps(other[-1], default=repr)


@pytest.fixture(scope="module")
def families() -> Iterator[Any]:
    there = [id for id in FAMILIES if "Code" not in id or asyncio.run(_sandboxed())]
    with serving(there, capacity=8) as server:
        yield server


async def _sandboxed() -> bool:
    backend = BubblewrapBackend()
    try:
        return (await backend.probe()).available
    finally:
        await backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("id", FAMILIES)
def test_same_seeds_give_the_same_bytes_here_and_over_the_socket(families: Any, id: str) -> None:
    if id not in families.catalog.digests:
        pytest.skip("NOT TESTED: no sandbox works here")
    local, remote = tw.make(id), tw.make(at(families, id))
    try:
        assert remote.max_turns == local.max_turns
        assert [tool.to_json() for tool in remote.tools] == [tool.to_json() for tool in local.tools]
        for seed in (0, 7):
            same(local.reset(seed=seed), remote.reset(seed=seed))
            assert [tool.to_json() for tool in remote.tools] == [tool.to_json() for tool in local.tools]
            for turn in range(6):
                action = local.random_action(Rng("t", seed, turn)) if turn in (1, 3) else local.oracle()
                if turn == 2:
                    assert Action.of(remote.oracle()) == Action.of(action)
                    forks = local.fork(), remote.fork()
                    answers = [fork.step(action) for fork in forks]
                    same(*answers)
                    for fork in forks:
                        fork.close()
                one, other = local.step(action), remote.step(action)
                same(one, other)
                if one[2] or one[3]:
                    break
    finally:
        local.close()
        remote.close()


@pytest.mark.slow
def test_the_runner_plays_the_same_episodes_in_processes_of_the_server() -> None:
    id = "turnwise/Maze-v0"
    tasks = list(tw.make(id).tasks().sample(6, split="test_iid"))
    here = tw.run(id, agent_from("oracle"), tasks)
    with serving([id], isolation="process", capacity=2) as server:
        pool = EnvPool.of(at(server, id))
        assert pool.servers is not None
        assert pool.servers.places == 2, "no more episodes than the server has places"
        there = tw.run(at(server, id), agent_from("oracle"), tasks, concurrency=16)
    for one, other in zip(here, there, strict=True):
        assert other.outcome == one.outcome == "completed"
        assert [(t.observation, t.action, t.reward, t.terminated, t.obs_key, t.info) for t in one.turns] == [
            (t.observation, t.action, t.reward, t.terminated, t.obs_key, t.info) for t in other.turns
        ]
        assert one.final_observation == other.final_observation
        assert one.score == other.score


@pytest.mark.slow
def test_an_evaluation_draws_the_same_tasks(families: Any) -> None:
    for id in FAMILIES[:4]:
        remote = tw.make(at(families, id))
        there = sample_tasks(remote.tasks(), 12, seed=3)
        assert there == sample_tasks(tw.make(id).tasks(), 12, seed=3)
        assert source_digest(remote) == families.catalog.find(id).digest
        remote.close()


def test_lone_surrogates_nan_and_images_survive(server: Any) -> None:
    remote, local = tw.make(at(server)), Tally()
    for text in ("add \ud800", "naïve ☃", "\x00\u2028", "a" * 100_000):
        same(local.reset(seed=1), remote.reset(seed=1))
        same(local.step(text), remote.step(text))
        assert Tally.acted[-1] == Tally.acted[-2]
    same(local.step(Action(problem="unread")), remote.step(Action(problem="unread")))
    call = ToolCall("x", {"deep": [1.5, None, {"a": "\ud800"}]}, "id-1")
    same(local.step(call), remote.step(call))


def test_an_action_larger_than_a_frame_is_one_that_cannot_be_read() -> None:
    with serving(frame=10_000) as server:
        env = tw.make(at(server))
        env.reset(seed=0)
        observation, _, terminated, _, info = env.step("x" * 20_000)
        assert "too long" in observation.text
        assert info["unparsed"] is True
        assert not terminated
        assert env.step("add")[0].text == "total 1"


def nested(depth: int) -> list[Any]:
    outer: list[Any] = []
    for _ in range(depth - 1):
        outer = [outer]
    return outer


@pytest.mark.parametrize("depth", [150, 965])
def test_an_action_that_is_nested_too_deeply_is_one_that_cannot_be_read(server: Any, depth: int) -> None:
    env = tw.make(at(server))
    env.reset(seed=0)
    observation, _, terminated, _, info = env.step(ToolCall("x", {"a": nested(depth)}))
    assert "nested too deeply" in observation.text
    assert info["unparsed"] is True
    assert not terminated
    assert "not JSON" in env.step(ToolCall("x", {"a": {1, 2}}))[0].text
    assert env.step(ToolCall("x", {"a": nested(99)}))[0].text == "total 1"


def test_an_environment_behaves_as_one(server: Any) -> None:
    env = tw.make(at(server))
    with pytest.raises(ContractError, match="reset"):
        env.step("add")
    with pytest.raises(ContractError, match="reset"):
        env.fork()
    env.reset(seed=0)
    env.step("add")
    fork, clone = env.fork(), copy.deepcopy(env)
    for each in (env, fork, clone):
        assert each.step("add")[0].text == "total 2"
        assert each.turn == 2
    assert server.episodes.places.load == 3
    fork.close()
    del each, clone
    env.reset(seed=1)
    env.step("end")
    with pytest.raises(ContractError, match="reset"):
        env.step("add")
    env.close()
    end = time.monotonic() + 10
    while server.episodes.places.load:
        assert time.monotonic() < end, "closed and collected environments give their places back"
        time.sleep(0.01)


async def test_the_async_form_works_in_any_loop(server: Any) -> None:
    env = await asyncio.to_thread(tw.make, at(server))
    await env.areset(seed=0)
    assert (await env.astep("add"))[0].text == "total 1"
    await asyncio.to_thread(env.close)


def test_a_turn_limit_of_the_run_and_wrappers_work(server: Any) -> None:
    episodes = tw.run(at(server), agent_from("oracle"), [task()], env_kwargs={"turn_limit": 2})
    assert [episode.outcome for episode in episodes] == ["truncated"]
    assert len(episodes[0].turns) == 2


def test_connect_names_the_environments(server: Any) -> None:
    remote = tw.connect(server.address, token=TOKEN)
    assert remote.ids == (at(server),)
    assert remote.capacity == 4
    env = remote.make()
    env.reset(seed=0)
    with pytest.raises(UsageError, match="operator"):
        env.oracle()
    env.close()
    assert environment(at(server)) == at(server)
    assert find(at(server)).source == server.address


def test_bad_input_is_one_line(server: Any) -> None:
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: tw.make(at(server, "test/Taly-v0")), UnknownEnvironmentError, "this server has test/Tally-v0"),
        (lambda: tw.make(at(server), max_turns=3), UsageError, "serve. decides"),
        (lambda: tw.make("turnwise://127.0.0.1:1/test/Tally-v0"), InfrastructureError, "is .turnwise serve. running"),
        (lambda: tw.make("turnwise://127.0.0.1/test/Tally-v0"), UsageError, "no port"),
        (lambda: tw.make("turnwise://127.0.0.1:8765"), UsageError, "no environment"),
        (lambda: tw.make("turnwise://me:pass@127.0.0.1:8765/x-v0"), UsageError, "no credentials"),
        (lambda: tw.make("turnwise://127.0.0.1:99999/x-v0"), UsageError, "not the address"),
        (lambda: tw.connect("ftp://127.0.0.1:1"), UsageError, "not the address"),
        (lambda: tw.connect("ws://127.0.0.1:1/path"), UsageError, "has a path"),
        (lambda: tw.connect(server.address, token="wrong" * 5), UsageError, "refused the token"),
        (
            lambda: tw.make(at(server).replace("turnwise://", "ws://")),
            UnknownEnvironmentError,
            f"write {re.escape(at(server))}$",
        ),
        (
            lambda: tw.make("https://h/x/Y-v0"),
            UnknownEnvironmentError,
            r"write turnwise\+tls://h/x/Y-v0$",
        ),
        (
            lambda: tw.make(at(server).replace("turnwise://", "turnwise+tls://")),
            InfrastructureError,
            f"no TLS there; without TLS, write {server.address} or turnwise://",
        ),
    ]
    for call, kind, pattern in cases:
        with pytest.raises(kind, match=pattern) as raised:
            call()
        assert "\n" not in str(raised.value)
        assert "pass" not in str(raised.value).replace("password", "")


async def test_a_plain_client_of_a_server_with_tls_reads_what_to_write() -> None:
    """Such a server closes, or answers with bytes of TLS."""

    async def speaks_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"\x15\x03\x01\x00\x02\x02\x16\r\n")  # alert: unexpected message
        writer.close()

    async with await asyncio.start_server(speaks_tls, "127.0.0.1", 0) as listening:
        place = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        with pytest.raises(
            InfrastructureError, match=f"if it speaks TLS, write wss://{place} or turnwise.tls://{place}/"
        ):
            await Connection(server_address(f"ws://{place}")).hello()


async def test_a_proxy_with_tls_that_answers_plain_text_reads_so() -> None:
    async def never(socket: ServerConnection, number: int) -> None:
        await socket.close()

    with pretending(never, {1: 400}) as address, pytest.raises(UsageError, match="if it speaks TLS, write wss://"):
        await Connection(server_address(address)).hello()


def test_a_certificate_that_is_not_accepted_says_why() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    assert str(unreachable(Address("h", 443, tls=True), error)) == (
        "cannot reach wss://h:443: its certificate is not accepted (self-signed certificate)"
    )


def test_addresses_are_read_and_written() -> None:
    for id in ("turnwise://h:1/a/B-v0", "turnwise+tls://h:443/a/B-v0", "turnwise://[::1]:1/B-v0"):
        address, env = remote_id(id)
        assert address.id_of(env) == id
        assert server_address(str(address)) == address
    assert server_address("wss://h") == server_address("https://h") == Address("h", 443, tls=True)


def test_another_version_of_the_protocol_is_refused(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PROTOCOL", 2)
    with pytest.raises(UsageError, match="same release"):
        LOOP.wait(_hello(server.address))


async def _hello(address: str) -> Any:
    return await Connection(server_address(address)).hello()


def test_a_changed_environment_is_refused(server: Any) -> None:
    env = tw.make(at(server))
    env._remote.digest = "0" * 16  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="have changed"):
        env.reset(seed=0)


async def test_a_run_refuses_another_version_of_its_environment() -> None:
    def start(port: int, **settings: Any) -> EnvironmentServer:
        config = ServeConfig(isolation="thread", heartbeat=0.5, **settings)
        server = EnvironmentServer([ID], config, tokens=[TOKEN], operator=OPERATOR, port=port)
        LOOP.wait(server.start(), 60)
        return server

    tw.register(ID, Tally)
    server = await asyncio.to_thread(start, 0)
    try:
        pool = await asyncio.to_thread(EnvPool.of, at(server))
        first, second = await asyncio.gather(pool.take(), pool.take())
        assert isinstance(first, SocketHost)
        assert isinstance(second, SocketHost)
        assert first.digest == second.digest
        port = int(server.address.rpartition(":")[2])
        await asyncio.to_thread(LOOP.wait, server.aclose(), 60)
        server = await asyncio.to_thread(lambda: start(port, env_kwargs={"max_turns": 3}))
        with pytest.raises(UsageError, match="have changed"):
            await (await pool.take()).reset(task())  # refused by this client, or by the server if it is quicker
        await pool.close()
    finally:
        await asyncio.to_thread(LOOP.wait, server.aclose(), 60)


async def test_a_refused_fork_leaves_nothing_to_attach() -> None:
    with serving(capacity=1) as server:
        connection = Connection(server_address(server.address))
        episode = RemoteEpisode(connection, ID, (await connection.hello()).environments[ID])
        await episode.reset(task(), 10.0)
        for _ in range(3):
            with pytest.raises(InfrastructureError):
                await episode.fork()
        assert len(connection._state.episodes) == 1
        await connection.close()


async def test_a_fork_that_nobody_waits_for_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tally, "fork_seconds", 0.3)
    with serving(capacity=2) as server:
        connection = Connection(server_address(server.address))
        episode = RemoteEpisode(connection, ID, (await connection.hello()).environments[ID])
        await episode.reset(task(), 10.0)
        branched = Tally.branched
        forking = asyncio.create_task(episode.fork())
        await asyncio.to_thread(until, lambda: Tally.branched > branched)
        forking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await forking
        await asyncio.to_thread(until, lambda: server.episodes.places.load == 1)
        assert len(connection._state.episodes) == 1
        await connection.close()


# -- tokens -------------------------------------------------------------------------------------------------------


def test_a_token_goes_only_to_this_machine_and_to_named_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_tokens", {})
    monkeypatch.setenv("TURNWISE_TOKEN", "mine")
    there = Address("gpu.example", 8765)
    for host in ("localhost", "127.0.0.1", "127.3.2.1", "::1"):
        assert Address(host, 1).token == "mine"
    for host in ("gpu.example", "10.0.0.1", "127.0.0.1.example", "localhost.example", "0.0.0.0", "::2"):
        assert Address(host, 1).token == ""
    there.keep_token(None)
    assert there.token == "mine", "connect() named this server"
    there.keep_token("other")
    there.keep_token(None)
    assert there.token == "other"

    addresses._tokens.clear()
    monkeypatch.setenv("TURNWISE_TOKEN", "GPU.example:8765=a=b, [fd00::1]:1=six,127.0.0.1:1=one,plain")
    assert there.token == "a=b"
    assert Address("gpu.example", 8766).token == ""
    assert Address("fd00::1", 1).token == "six"
    assert [Address("127.0.0.1", port).token for port in (1, 2)] == ["one", "plain"]


def test_a_server_that_got_no_token_is_refused_with_the_way_to_name_it(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "_loopback", lambda host: False)
    place = server.address.removeprefix("ws://")
    with pytest.raises(UsageError, match=f"refused the token.*set TURNWISE_TOKEN={place}=TOKEN"):
        tw.make(at(server))
    monkeypatch.setenv("TURNWISE_TOKEN", f"elsewhere:1=x,{place}={TOKEN}")
    tw.make(at(server)).close()


# -- faults of the network ----------------------------------------------------------------------------------------


def unreliable(seed: int) -> Callable[[str], Sequence[float]]:
    """Lose a fifth of all frames after the first, and repeat and delay others."""
    chance, first = random.Random(seed), [True]

    def fate(frame: str) -> Sequence[float]:
        if first[0] or '"hello"' in frame:
            first[0] = False
            return [0.0]
        drawn = chance.random()
        return [] if drawn < 0.2 else [0.0, 0.05] if drawn < 0.35 else [chance.random() * 0.1] if drawn < 0.6 else [0.0]

    return fate


def deliver(frame: str) -> Sequence[float]:
    """Deliver a frame at once."""
    return [0.0]


async def play(address: str, seed: int, *, turns: int = 8, fork: bool = True) -> list[str]:
    connection = Connection(server_address(address), resend=0.2)
    digest = (await connection.hello()).environments[ID]
    episode = RemoteEpisode(connection, ID, digest)
    try:
        (observation, _), _ = await episode.reset(task(seed), 10.0)
        said = [observation.text]
        for turn in range(turns):
            said.append((await episode.step(Action(f"add {turn}")))[0].text)
        if fork:
            other = await episode.fork()
            said.append((await other.step(Action("add fork")))[0].text)
            await other.close()
        await episode.close()
    finally:
        await connection.close()
    return said


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_lost_late_and_repeated_frames_never_act_twice(server: Any, seed: int) -> None:
    with proxy(server.address, unreliable(seed), unreliable(seed + 100)) as wire:

        async def both() -> list[list[str]]:
            return await asyncio.gather(*(play(wire.address, number) for number in (1, 2)))

        for number, said in zip((1, 2), asyncio.run(both()), strict=True):
            assert said == [f"seed {number}", *(f"total {n + 1}" for n in range(8)), "total 9"]
            mine = [each for each in Tally.acted if each.startswith(f"{number}:")]
            assert mine == [f"{number}:add {n}" for n in range(8)] + [f"{number}:add fork"]
    end = time.monotonic() + 10
    while server.episodes.places.load:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_broken_socket_is_replaced_while_a_step_runs(server: Any) -> None:
    with proxy(server.address, deliver, deliver) as wire:

        async def played() -> tuple[str, str]:
            connection = Connection(server_address(wire.address), resend=5.0)
            episode = RemoteEpisode(connection, ID, (await connection.hello()).environments[ID])
            await episode.reset(task(), 10.0)
            stepping = asyncio.create_task(episode.step(Action("sleep 1")))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(wire.cut)
            first = (await stepping)[0].text
            await asyncio.to_thread(wire.cut)
            await asyncio.sleep(0.5)  # without a request, it connects again and attaches the episode
            second = (await episode.step(Action("add")))[0].text
            await connection.close()
            return first, second

        assert asyncio.run(played()) == ("total 1", "total 2")
        assert Tally.acted == ["0:sleep 1", "0:add"]


def test_a_silent_server_is_a_broken_one() -> None:
    silent = [False]
    settings: dict[str, Any] = {"reattach": 1.0, "heartbeat": 0.2}
    with serving(**settings) as server, proxy(server.address, deliver, lambda _: [] if silent[0] else [0.0]) as wire:

        async def played() -> None:
            connection = Connection(server_address(wire.address))
            episode = RemoteEpisode(connection, ID, (await connection.hello()).environments[ID])
            await episode.reset(task(), 10.0)
            silent[0] = True
            with pytest.raises(EnvironmentDiedError, match="could not be reached again in 1 s"):
                await episode.step(Action("add"))

        started = time.monotonic()
        asyncio.run(played())
        assert time.monotonic() - started < 60, "nothing hangs"


HELLO: dict[str, Any] = {"protocol": 1, "capacity": 1, "load": 0, "heartbeat": 5.0, "reattach": 5.0, "frame": 4096}
HELLO |= {"operator": True, "environments": {ID: "0" * 16}}


@contextlib.contextmanager
def pretending(handle: Callable[[ServerConnection, int], Awaitable[None]], refuse: dict[int, int]) -> Iterator[str]:
    """A server that says hello, and then does what ``handle`` does with the number of the connection.

    It answers the connections in ``refuse`` with an HTTP status instead.
    """
    number = [0]

    async def greet(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"event": "hello", "data": HELLO}))
        await handle(socket, number[0])

    def admit(socket: ServerConnection, _: Any) -> Response | None:
        number[0] += 1
        return socket.respond(refuse[number[0]], "") if number[0] in refuse else None

    async def start() -> Any:
        return await serve(greet, "127.0.0.1", 0, compression=None, process_request=admit)

    async def stop() -> None:
        listening.close()

    listening = LOOP.wait(start())
    try:
        yield f"ws://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}"
    finally:
        LOOP.wait(stop())


async def answer(socket: ServerConnection, frame: Any) -> None:
    await socket.send(json.dumps({"id": frame["id"], "ok": True, "data": {}}))


@pytest.mark.parametrize("status", [429, 500, 502, 504])
async def test_a_busy_proxy_is_infrastructure(status: int) -> None:
    async def never(socket: ServerConnection, number: int) -> None:
        await socket.close()

    with pretending(never, {1: status}) as address, pytest.raises(InfrastructureError, match=f"HTTP {status}"):
        await Connection(server_address(address)).hello()


async def test_a_proxy_that_answers_while_the_server_restarts_does_not_end_the_run() -> None:
    async def breaks_first(socket: ServerConnection, number: int) -> None:
        async for text in socket:
            if number == 1:
                socket.transport.abort()
            await answer(socket, json.loads(text))

    with pretending(breaks_first, {2: 502, 3: 404}) as address:
        connection = Connection(server_address(address))
        assert await connection.ask("describe", {}) == {}
        await connection.close()
    with pretending(breaks_first, {2: 403}) as address:
        connection = Connection(server_address(address))
        with pytest.raises(UsageError, match="refuses this client"):
            await connection.ask("describe", {})


@pytest.mark.slow
async def test_a_connection_that_breaks_after_its_handshake_is_not_replaced_in_a_loop() -> None:
    opened = []

    async def breaks(socket: ServerConnection, number: int) -> None:
        opened.append(number)
        socket.transport.abort()

    with pretending(breaks, {}) as address:
        connection = Connection(server_address(address))
        with pytest.raises(EnvironmentDiedError, match="could not be reached again in 5 s"):
            await asyncio.wait_for(connection.ask("describe", {}), 20)
    assert 3 < len(opened) < 12, "the pause grows"


async def test_a_server_that_cannot_read_a_request_fails_it() -> None:
    async def unread(socket: ServerConnection, number: int) -> None:
        async for _ in socket:
            await socket.send(json.dumps({"id": None, "ok": False, "error": {"kind": "bad_frame", "message": "deep"}}))

    with pretending(unread, {}) as address:
        connection = Connection(server_address(address))
        with pytest.raises(EnvironmentFailedError, match="cannot read a request: deep"):
            await asyncio.wait_for(connection.ask("describe", {}), 5)
        await connection.close()


async def test_a_frame_that_is_too_large_fails_its_request_alone() -> None:
    async def picky(socket: ServerConnection, number: int) -> None:
        async for text in socket:
            if len(text) > 1000:
                await socket.close(1009)
            elif number > 1:
                await answer(socket, json.loads(text))

    with pretending(picky, {}) as address:
        connection = Connection(server_address(address))
        small, large = (asyncio.create_task(connection.ask("describe", {"env": "x" * size})) for size in (10, 2000))
        with pytest.raises(RequestError, match="accepts fewer"):
            await asyncio.wait_for(large, 5)
        assert await asyncio.wait_for(small, 5) == {}
        await connection.close()


async def test_an_answer_that_is_too_large_fails_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LARGEST_ANSWER", 10_000)
    with serving() as server:
        connection = Connection(server_address(server.address))
        episode = RemoteEpisode(connection, ID, (await connection.hello()).environments[ID])
        await episode.reset(task(), 10.0)
        with pytest.raises(EnvironmentFailedError, match="answer of over 10000 bytes"):
            await asyncio.wait_for(episode.step(Action("large 20000")), 5)
        assert (await episode.step(Action("add")))[0].text == "total 1"
        await connection.close()


async def test_episodes_that_fit_in_no_single_frame_are_attached_again() -> None:
    with serving(capacity=64, frame=1024) as server:
        connection = Connection(server_address(server.address))
        digest = (await connection.hello()).environments[ID]
        episodes = [RemoteEpisode(connection, ID, digest) for _ in range(40)]
        for seed, episode in enumerate(episodes):
            await episode.reset(task(seed), 10.0)
        socket = connection._state.socket
        assert socket is not None
        socket.transport.abort()
        assert (await asyncio.wait_for(episodes[0].step(Action("add")), 5))[0].text == "total 1"
        end = time.monotonic() + 10
        while not all(each.connection is not None for each in server.episodes._open.values()):
            assert time.monotonic() < end
            await asyncio.sleep(0.01)
        await connection.close()


@pytest.mark.slow
def test_a_killed_worker_fails_its_episode_alone_and_the_runner_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # where the server's processes find this module
    tw.register(ID, Tally)
    with serving(isolation="process", capacity=2) as server, Raw(server) as client:
        dies, works = client.reset(0), client.reset(1)
        client.ask("step", dies, turn=0, action={"text": "add"})
        os.kill(server.episodes._open[dies].host.pid, signal.SIGKILL)
        assert client.ask("step", dies, turn=1, action={"text": "add"})["kind"] == "died"
        assert text_of(client.ask("step", works, turn=0, action={"text": "add"})) == "total 1"
        for each in (dies, works):
            client.ask("close", each)

        agent = KillsOnce(server)
        (episode,) = tw.run(at(server), agent, [task(5)], retries=3, backoff=0.0)
        assert agent.killed, "nothing was killed"
        assert episode.outcome == "completed"
        assert episode.attempts == 2
        assert [turn.action.text for turn in episode.turns] == ["add", "add", "add", "end"]
        assert episode.after_action == 1, "the action without an answer was repeated, not sampled again"


class KillsOnce:
    """An agent that kills the worker of its environment before its third action, once."""

    def __init__(self, server: Any) -> None:
        self.server, self.killed = server, False

    def start(self, context: EpisodeContext) -> Any:
        return _KillsOnce(self)


class _KillsOnce:
    def __init__(self, agent: KillsOnce) -> None:
        self.agent, self.turn = agent, 0

    async def act(self, observation: tw.Observation) -> Decision:
        self.turn += 1
        if self.turn == 3 and not self.agent.killed:
            self.agent.killed = True
            (episode,) = self.agent.server.episodes._open.values()
            os.kill(episode.host.pid, signal.SIGKILL)
        return Decision(Action("end" if self.turn == 4 else "add"))
