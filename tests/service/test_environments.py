"""``turnwise serve``'s own protocol: answers out of order, each turn once, one client's episodes for it alone."""

from __future__ import annotations

import asyncio
import json
import pickle
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import turnwise as tw
from turnwise.envs.remote.frames import PATH
from turnwise.errors import UsageError
from turnwise.rollouts.pool import EnvPool
from turnwise.service.environments.access import Access
from turnwise.service.environments.calls import digest_of
from turnwise.service.environments.latest import Latest
from turnwise.service.environments.server import EnvironmentServer

from .environment_servers import ID, LOOP, OPERATOR, OTHER, Raw, Tally, act, serving, task, text_of, until


@pytest.fixture(autouse=True)
def nothing_acted() -> None:
    Tally.acted.clear()


@pytest.fixture
def server() -> Iterator[Any]:
    with serving(capacity=4) as server:
        yield server


def test_hello_announces_capacity_load_and_digests(server: Any) -> None:
    with Raw(server) as one:
        assert one.hello["capacity"] == 4
        assert one.hello["load"] == 0
        assert one.hello["environments"] == {ID: server.catalog.first.digest}
        assert one.hello["reattach"] == server.config.reattach
        one.reset()
        with Raw(server) as two:
            assert two.hello["load"] == 1
        beat = json.loads(one.socket.recv(10))
        assert beat == {"event": "heartbeat", "data": {"capacity": 4, "load": 1, "draining": False}}


def test_a_slow_episode_delays_no_other(server: Any) -> None:
    with Raw(server) as client:
        slow, quick = client.reset(0), client.reset(1)
        first = client.send("step", slow, turn=0, action=act("sleep 1"))
        second = client.send("step", quick, turn=0, action=act("add"))
        assert [client.next()["id"], client.next()["id"]] == [second, first], "answers must come out of order"


def test_a_step_acts_once(server: Any) -> None:
    with Raw(server) as client:
        episode = client.reset()
        once = client.ask("step", episode, turn=0, action=act("add"))
        again = client.ask("step", episode, turn=0, action=act("add"))
        assert once == again
        assert Tally.acted == ["0:add"], "a repeated step must not act again"
        assert client.ask("step", episode, turn=0, action=act("else"))["kind"] == "conflict"
        assert client.ask("step", episode, turn=2, action=act("add"))["kind"] == "conflict"
        assert client.ask("step", episode, turn=-1, action=act("add"))["kind"] == "conflict"
        assert text_of(client.ask("step", episode, turn=1, action=act("add"))) == "total 2"


def test_an_action_is_the_same_in_any_order_of_its_arguments() -> None:
    one, other, another = (
        tw.Action(tool_calls=(tw.ToolCall("f", arguments),))
        for arguments in ({"x": 1, "y": {"a": 1, "b": 2}}, {"y": {"b": 2, "a": 1}, "x": 1}, {"x": 2, "y": {}})
    )
    assert digest_of(one) == digest_of(other) != digest_of(another)


def test_a_step_in_flight_is_joined_and_not_repeated(server: Any) -> None:
    with Raw(server) as client:
        episode = client.reset()
        for _ in range(5):
            client.send("step", episode, turn=0, action=act("sleep 0.5"))
        answers = [client.next()["data"] for _ in range(5)]
        assert all(answer == answers[0] for answer in answers)
        assert Tally.acted == ["0:sleep 0.5"]


def test_a_repeated_reset_is_the_same_episode(server: Any) -> None:
    with Raw(server) as client:
        episode = client.reset()
        same = client.ask("reset", episode, env=ID, task=task().to_json())
        assert text_of(same) == "seed 0"
        assert len(server.episodes) == 1
        assert client.ask("reset", episode, env=ID, task=task(1).to_json())["kind"] == "conflict"
        client.ask("close", episode)
        assert client.ask("close", episode) == {}
        late = client.ask("reset", episode, env=ID, task=task().to_json())
        assert late["kind"] == "lost", "a late frame must not start a closed episode again"
        assert server.episodes.places.load == 0


def test_a_fork_is_independent_and_repeatable(server: Any) -> None:
    with Raw(server) as client:
        episode, fork = client.reset(), secrets.token_hex(16)
        client.ask("step", episode, turn=0, action=act("add"))
        assert client.ask("fork", episode, **{"as": fork}) == {}
        assert client.ask("fork", episode, **{"as": fork}) == {}
        assert len(server.episodes) == 2
        assert text_of(client.ask("step", fork, turn=1, action=act("add"))) == "total 2"
        assert text_of(client.ask("step", fork, turn=2, action=act("add"))) == "total 3"
        assert text_of(client.ask("step", episode, turn=1, action=act("add"))) == "total 2"
        client.ask("close", episode)
        assert text_of(client.ask("step", fork, turn=3, action=act("add"))) == "total 4", "forks outlive their origin"


def test_closing_a_fork_that_is_being_made_leaves_its_parent_alone(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tally, "fork_seconds", 0.5)
    with Raw(server) as client:
        episode, fork = client.reset(), secrets.token_hex(16)
        client.ask("step", episode, turn=0, action=act("add"))
        branched, forking = Tally.branched, client.send("fork", episode, **{"as": fork})
        until(lambda: Tally.branched > branched)
        closing = client.send("close", fork)
        answers = {answer["id"]: answer for answer in (client.next(), client.next())}
        assert answers[forking]["error"]["kind"] == "lost"
        assert answers[closing]["ok"]
        assert text_of(client.ask("step", episode, turn=1, action=act("add"))) == "total 2"
        until(lambda: server.episodes.places.load == 1)
        assert not server.episodes._running, "its host must be closed"
        client.ask("close", episode)
        assert server.episodes.places.load == 0


def test_closing_the_parent_of_a_fork_that_is_being_made_frees_both_places(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tally, "fork_seconds", 0.5)
    with Raw(server) as client:
        episode, fork = client.reset(), secrets.token_hex(16)
        branched, forking = Tally.branched, client.send("fork", episode, **{"as": fork})
        until(lambda: Tally.branched > branched)
        closing = client.send("close", episode)
        answers = {answer["id"]: answer for answer in (client.next(), client.next())}
        assert answers[forking]["error"]["kind"] == "lost"
        assert answers[closing]["ok"]
        client.ask("close", fork)
        until(lambda: server.episodes.places.load == 0)


def test_a_closed_fork_leaves_nothing_behind(server: Any) -> None:
    with Raw(server) as client:
        episode = client.reset()
        for _ in range(20):
            fork = secrets.token_hex(16)
            assert client.ask("fork", episode, **{"as": fork}) == {}
            client.ask("close", fork)
            assert client.ask("fork", episode, **{"as": fork})["kind"] == "lost", "a late frame must not fork again"
        assert not server.episodes._open[episode].forks


def test_a_connection_that_breaks_during_a_close_leaks_no_place(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    discarding = []

    async def discard(pool: EnvPool, host: Any) -> None:
        discarding.append(host)
        await asyncio.sleep(0.5)

    monkeypatch.setattr(EnvPool, "discard", discard)
    client = Raw(server)
    episode = client.reset()
    client.ask("fork", episode, **{"as": secrets.token_hex(16)})
    client.send("close", episode)
    until(lambda: discarding)
    client.socket.socket.close()
    until(lambda: server.episodes.places.load == 1, 5)


def test_nobody_reads_anothers_episode(server: Any) -> None:
    with Raw(server) as mine, Raw(server, OTHER) as other:
        episode = mine.reset()
        calls: list[tuple[str, dict[str, Any]]] = [
            ("step", {"turn": 0, "action": act("add")}),
            ("random", {"seed": 1}),
            ("fork", {"as": secrets.token_hex(16)}),
        ]
        for verb, data in calls:
            assert other.ask(verb, episode, **data)["kind"] == "lost", verb
        assert other.ask("close", episode) == {}
        assert other.ask("attach", episodes=[episode])["lost"] == [episode]
        assert other.ask("reset", episode, env=ID, task=task().to_json())["kind"] == "conflict"
        assert text_of(mine.ask("step", episode, turn=0, action=act("add"))) == "total 1"
        assert Tally.acted == ["0:add"]


def test_the_oracle_needs_the_operators_key(server: Any) -> None:
    with Raw(server) as client, Raw(server, OPERATOR) as operator:
        refused = client.ask("oracle", client.reset())
        assert refused["kind"] == "forbidden"
        assert operator.ask("oracle", operator.reset())["action"]["text"] == "add 0"


def test_what_an_environment_raises_is_the_operators(server: Any) -> None:
    with Raw(server) as client, Raw(server, OPERATOR) as operator:
        hidden = client.ask("step", client.reset(), turn=0, action=act("boom"))
        shown = operator.ask("step", operator.reset(), turn=0, action=act("boom"))
        assert hidden["kind"] == shown["kind"] == "failed"
        assert "secret" not in json.dumps(hidden)
        assert "secret-" in shown["message"]


@pytest.mark.parametrize(
    ("word", "kind"),
    [("sandbox", "failed"), ("judge", "failed"), ("late", "timeout"), ("died", "died"), ("usage", "usage")],
)
def test_no_error_of_an_environment_reaches_a_client(server: Any, word: str, kind: str) -> None:
    with Raw(server) as client, Raw(server, OPERATOR) as operator:
        hidden = client.ask("step", client.reset(), turn=0, action=act(word))
        shown = operator.ask("step", operator.reset(), turn=0, action=act(word))
        assert "secret" not in json.dumps(hidden)
        assert "secret-" in shown["message"]
        assert hidden["kind"] == shown["kind"] == kind, "only the server itself is ever full"


def test_the_log_has_what_clients_do_not_read(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    with Raw(server) as client, caplog.at_level("WARNING", "turnwise"):
        for word in ("boom", "sandbox", "usage"):
            caplog.clear()
            client.ask("step", client.reset(), turn=0, action=act(word))
            assert "secret-" in caplog.text, word


def test_a_refused_task_is_readable_by_every_client(server: Any) -> None:
    with Raw(server) as client:
        for verb, episode in (("reset", secrets.token_hex(16)), ("instance", None)):
            refused = client.ask(verb, episode, env=ID, task={"family": "other"})
            assert refused["kind"] == "task"
            assert "other" in refused["message"], verb


def test_no_answer_holds_a_secret(server: Any) -> None:
    with Raw(server) as client:
        episode, said = client.reset(), [client.hello, client.ask("describe", env=ID)]
        said.append(client.ask("instance", env=ID, task=task().to_json()))
        said += [client.ask("step", episode, turn=turn, action=act(word)) for turn, word in enumerate(("add", "end"))]
        assert "secret" not in json.dumps(said)
        assert said[-1]["info"]["score"]["success"] is True


def test_a_failed_environment_frees_its_place_and_says_so_again(server: Any) -> None:
    with Raw(server) as client:
        episode = client.reset()
        failed = client.ask("step", episode, turn=0, action=act("boom"))
        assert client.ask("step", episode, turn=0, action=act("boom")) == failed
        assert client.ask("step", episode, turn=1, action=act("add"))["kind"] == "lost"
        assert server.episodes.places.load == 0
        assert len(Tally.acted) == 1
        client.ask("close", episode)
        assert server.episodes.places.load == 0, "a place is given back once"


def test_an_environment_that_hangs_is_given_up() -> None:
    with serving(capacity=2, env_timeout=0.3) as server, Raw(server) as client:
        hangs, works = client.reset(0), client.reset(1)
        assert client.ask("step", hangs, turn=0, action=act("sleep 5"))["kind"] == "timeout"
        assert text_of(client.ask("step", works, turn=0, action=act("add"))) == "total 1"
        assert text_of(client.ask("step", client.reset(2), turn=0, action=act("add"))) == "total 1"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"env": "test/Nothing-v0", "task": task().to_json()}, "unknown_environment"),
        ({"env": ID, "task": task().to_json(), "digest": "0" * 16}, "version"),
        ({"env": ID, "task": {"family": "other"}}, "task"),
        ({"env": ID, "task": {"family": "Tally", "seed": -1}}, "task"),
        ({"env": ID, "task": 5}, "bad_frame"),
        ({"env": ID, "task": task().to_json(), "wait": "long"}, "bad_frame"),
        ({}, "unknown_environment"),
    ],
    ids=["environment", "digest", "family", "seed", "no task", "wait", "nothing"],
)
def test_a_wrong_reset_is_refused(server: Any, data: dict[str, Any], kind: str) -> None:
    with Raw(server) as client:
        refused = client.ask("reset", secrets.token_hex(16), **data)
        assert refused["kind"] == kind
        assert "\n" not in refused["message"]
        assert client.ask("reset", "short", env=ID, task=task().to_json())["kind"] == "bad_frame"
        until(lambda: server.episodes.places.load == 0)
        client.reset()


def test_a_flood_of_failing_episodes_fills_no_memory(server: Any) -> None:
    with Raw(server) as client:
        for _ in range(400):
            wrong = client.ask("reset", secrets.token_hex(16), env=ID, task={"family": "other"})
            assert wrong["kind"] == "task"
        assert len(server.episodes) <= 256
        assert server.episodes.places.load == 0
        client.reset()


def test_a_full_server_says_so_and_serves_in_order() -> None:
    with serving(capacity=2) as server, Raw(server) as client:
        first, _ = client.reset(0), client.reset(1)
        assert client.ask("reset", secrets.token_hex(16), env=ID, task=task().to_json())["kind"] == "full"
        waiting = [secrets.token_hex(16) for _ in range(2)]
        ids = [client.send("reset", one, env=ID, task=task(i + 2).to_json(), wait=20) for i, one in enumerate(waiting)]
        closed = client.send("close", first)
        answers = {answer["id"]: answer for answer in (client.next(), client.next())}
        assert set(answers) == {closed, ids[0]}
        assert text_of(answers[ids[0]]["data"]) == "seed 2"
        client.send("close", waiting[0])
        assert ids[1] in (client.next()["id"], client.next()["id"])


def test_resets_that_wait_do_not_keep_a_running_episode_waiting() -> None:
    with serving(capacity=1, pending=2) as server, Raw(server) as client:
        episode = client.reset()
        late = [secrets.token_hex(16) for _ in range(2)]
        waiting = [client.send("reset", one, env=ID, task=task(1).to_json(), wait=20) for one in late]
        until(lambda: len(server.episodes.places._waiting) == 2)
        again = client.ask("reset", late[0], env=ID, task=task(1).to_json(), wait=20)
        assert again["kind"] == "full", "one that is sent again counts, too"
        refused = client.ask("reset", secrets.token_hex(16), env=ID, task=task(1).to_json(), wait=20)
        assert refused["kind"] == "full"
        assert "this connection" in refused["message"]
        assert text_of(client.ask("step", episode, turn=0, action=act("add"))) == "total 1"
        closing = client.send("close", episode)
        assert {client.next()["id"], client.next()["id"]} == {closing, waiting[0]}
        client.send("close", late[0])
        assert waiting[1] in (client.next()["id"], client.next()["id"])
        client.ask("close", late[1])
        episode = client.reset()
        waiting = [
            client.send("reset", secrets.token_hex(16), env=ID, task=task(1).to_json(), wait=0.2) for _ in range(2)
        ]
        answers = [client.next() for _ in waiting]
        assert {answer["error"]["kind"] for answer in answers} == {"full"}
        assert not any("this connection" in answer["error"]["message"] for answer in answers), "shares come back"


def test_one_client_cannot_take_all_places() -> None:
    with serving(capacity=3, per_client=2, waiting=1) as server, Raw(server) as greedy, Raw(server, OTHER) as other:
        greedy.reset(0), greedy.reset(1)
        flood = [greedy.send("reset", secrets.token_hex(16), env=ID, task=task().to_json(), wait=30) for _ in range(50)]
        refused = [greedy.next() for _ in flood[1:]]
        assert {answer["error"]["kind"] for answer in refused} == {"full"}
        assert "this client has all of its 2 places" in refused[0]["error"]["message"], "the server has a place"
        assert server.episodes.places.load == 2
        # The one that waits is behind its own limit, and does not stand in the way of another client.
        assert text_of(other.ask("reset", secrets.token_hex(16), env=ID, task=task(9).to_json(), wait=5)) == "seed 9"


@pytest.mark.parametrize("token", ["", "x" * 20, "t" * 19, "t" * 21], ids=["none", "wrong", "shorter", "longer"])
def test_a_wrong_token_is_refused_before_anything(server: Any, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for path in (PATH, "/ws"):
        with pytest.raises(InvalidStatus) as refused, connect(f"{server.address}{path}", additional_headers=headers):
            pass
        assert refused.value.response.status_code == 401


def test_connections_are_counted() -> None:
    with serving(connections=2) as server, Raw(server), Raw(server) as second:
        with pytest.raises(InvalidStatus) as refused:
            Raw(server)
        assert refused.value.response.status_code == 503
        second.socket.close()
        until(lambda: server._connections == 1)
        Raw(server).socket.close()


MALFORMED = [
    "",
    "{",
    "[]",
    "null",
    '{"id": 1.5}',
    '{"id": true}',
    '{"id": null, "verb": "reset"}',
    '{"verb": "step"}',
    "[" * 100_000,
    '{"id": ' + "9" * 10_000 + "}",
    "\x00",
]


def test_malformed_frames_are_answered_and_the_connection_stays(server: Any) -> None:
    with Raw(server) as client:
        for frame in MALFORMED:
            client.socket.send(frame)
            answer = client.next()
            assert answer["ok"] is False, frame[:40]
            assert answer["error"]["kind"] == "bad_frame", frame[:40]
        client.socket.send(b"\xff\xfe")
        assert client.next()["error"]["kind"] == "bad_frame"
        wrong: list[tuple[str, dict[str, Any]]] = [("fly", {}), ("step", {"turn": "0"})]
        wrong += [("step", {"turn": 0, "action": action}) for action in ({"x": 1}, {"text": 1}, {"tool_calls": [1]}, 3)]
        episode = client.reset()
        for verb, data in wrong:
            assert client.ask(verb, episode, **data)["kind"] == "bad_frame", data


def test_a_frame_beyond_the_limit_ends_only_its_connection() -> None:
    with serving(frame=1024 * 1024) as server, Raw(server) as client, Raw(server, OTHER) as other:
        episode = client.reset()
        with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012 - in either, by how fast it is refused
            client.socket.send("x" * 10_000_000)
            client.next()
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009  # none if it was still sending
        assert text_of(other.ask("step", other.reset(1), turn=0, action=act("add"))) == "total 1"
        with Raw(server) as again:
            assert text_of(again.ask("step", episode, turn=0, action=act("add"))) == "total 1", "the episode is kept"


def test_a_client_that_does_not_read_loses_its_connection_and_holds_no_memory() -> None:
    with serving(capacity=4, send_timeout=0.5, pending=8) as server, Raw(server, OTHER) as other:
        client = Raw(server)
        episode = client.reset()
        for _ in range(100):  # each gets the same answer; the client's reader stops after some
            try:
                client.send("step", episode, turn=0, action=act("large 2000000"))
            except (ConnectionClosed, OSError):
                break
        started = time.monotonic()
        assert text_of(other.ask("step", other.reset(1), turn=0, action=act("add"))) == "total 1"
        assert time.monotonic() - started < 10, "another client must not wait for it"
        until(lambda: server._connections == 1)
        assert sorted(Tally.acted) == ["0:large 2000000", "1:add"], "the server may read the other's first"
        client.socket.close_socket()


@pytest.mark.slow
def test_a_half_open_socket_is_dropped() -> None:
    with serving(heartbeat=0.5) as server:
        plain = socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])))
        key = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        plain.sendall(
            f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {'t' * 20}\r\n{key}"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        until(lambda: server._connections == 1)
        until(lambda: server._connections == 0, 30)  # it never answers a ping
        plain.close()


@pytest.mark.slow
def test_an_episode_waits_for_its_client_as_long_as_stated() -> None:
    with serving(reattach=1.0) as server:
        client = Raw(server)
        episode = client.reset()
        client.ask("step", episode, turn=0, action=act("add"))
        client.socket.socket.close()
        with Raw(server) as again:
            assert again.ask("attach", episodes=[episode, "0" * 32]) == {"lost": ["0" * 32]}
            assert text_of(again.ask("step", episode, turn=0, action=act("add"))) == "total 1"
            time.sleep(2.5)
            assert text_of(again.ask("step", episode, turn=1, action=act("add"))) == "total 2", "it is attached"
            again.socket.socket.close()
        until(lambda: server.episodes.places.load == 0)
        with Raw(server) as late:
            assert late.ask("step", episode, turn=2, action=act("add"))["kind"] == "lost"


@pytest.mark.slow
def test_an_episode_that_cannot_be_closed_does_not_stop_the_sweep(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = []

    def give(pool: EnvPool, host: Any, *, reusable: bool) -> None:
        given.append(host)
        raise ValueError("it does not close")

    monkeypatch.setattr(EnvPool, "give", give)
    with serving(reattach=0.0) as server, caplog.at_level("WARNING", "turnwise"):
        for number in (1, 2):
            client = Raw(server)
            client.reset()
            client.socket.socket.close()
            until(lambda number=number: len(given) == number, 10)
        assert "it does not close" in caplog.text
        assert server.episodes.places.load == 0


def test_a_client_that_leaves_politely_frees_its_places_at_once(server: Any) -> None:
    with Raw(server) as client:
        client.reset(0), client.reset(1)
    until(lambda: server.episodes.places.load == 0, 5)


def test_draining_starts_nothing_and_waits_for_what_runs() -> None:
    with serving(drain=20, capacity=1) as server, Raw(server) as client:
        episode = client.reset()
        waits = client.send("reset", secrets.token_hex(16), env=ID, task=task().to_json(), wait=20)
        until(lambda: server.episodes.places._waiting)
        draining = asyncio.run_coroutine_threadsafe(server.drain(), LOOP._started[1])
        refused = client.next()
        assert (refused["id"], refused["error"]["kind"]) == (waits, "draining")
        assert text_of(client.ask("step", episode, turn=0, action=act("add"))) == "total 1"
        assert not draining.done()
        client.ask("close", episode)
        draining.result(10)


@pytest.mark.parametrize("connected", [True, False], ids=["silent", "disconnected"])
def test_draining_does_not_wait_for_a_client_that_is_gone(connected: bool) -> None:
    with serving(drain=20) as server, Raw(server) as client, Raw(server) as other:
        gone, plays = client.reset(0), other.reset(1)
        if not connected:
            client.socket.socket.close()
            until(lambda: server.episodes._open[gone].connection is None)
        assert in_loop(lambda: server.playing) == 2, "the client may come back"
        server.episodes._open[gone].touched -= 21 if connected else 16
        assert in_loop(lambda: server.playing) == 1
        draining = asyncio.run_coroutine_threadsafe(server.drain(), LOOP._started[1])
        assert text_of(other.ask("step", plays, turn=0, action=act("add"))) == "total 1"
        assert not draining.done(), "the other client still plays"
        other.ask("close", plays)
        draining.result(10)
        assert server.episodes.places.load == 1


def in_loop(ask: Callable[[], int]) -> int:
    """Call a function in the server's event loop, whose clock it needs."""

    async def call() -> int:
        return ask()

    return asyncio.run_coroutine_threadsafe(call(), LOOP._started[1]).result(10)


def test_wrong_settings_of_a_server_are_refused() -> None:
    with pytest.raises(UsageError, match="can be guessed"):
        Access(["short"])
    with pytest.raises(UsageError, match="differ"):
        Access([OPERATOR], OPERATOR)
    with pytest.raises(UsageError, match="at least one environment"):
        EnvironmentServer([])
    with serving() as server, pytest.raises(UsageError, match="cannot listen"):
        LOOP.wait(EnvironmentServer([ID], server.config, port=int(server.address.rpartition(":")[2])).start())


def test_ended_episodes_of_a_client_are_bounded_and_keep_no_actions() -> None:
    with serving() as server, Raw(server) as client, Raw(server, OTHER) as other:
        server.episodes._ended = Latest(2)
        kept = other.reset()
        assert other.ask("step", kept, turn=0, action=act("end"))["terminated"]
        ended = [client.reset(seed) for seed in range(4)]
        words = f"end {'x' * 100_000}"
        answers = [client.ask("step", each, turn=0, action=act(words)) for each in ended]
        assert [client.ask("step", each, turn=0, action=act(words)) for each in ended[2:]] == answers[2:]
        assert client.ask("step", ended[3], turn=0, action=act("end"))["kind"] == "conflict"
        assert [client.ask("step", each, turn=0, action=act(words))["kind"] for each in ended[:2]] == ["lost"] * 2
        assert other.ask("step", kept, turn=0, action=act("end"))["terminated"], "another client's stays"
        assert len(server.episodes) == 3
        assert len(pickle.dumps(server.episodes._open[ended[3]].last[:2])) < 1000, "a digest, not the action"


def test_a_clients_time_runs_from_the_answer_to_a_slow_request() -> None:
    with serving(reattach=0.0) as server, Raw(server) as client:
        episode = client.reset()
        Tally.released.clear()
        client.send("step", episode, turn=0, action=act("wait"))
        found = server.episodes._open[episode]
        until(lambda: found.turn == 1)
        found.touched -= 1e6  # as after a long wait
        Tally.released.set()
        assert text_of(client.next()["data"]) == "total 1"
        LOOP.wait(server.episodes.sweep())
        assert text_of(client.ask("step", episode, turn=1, action=act("add"))) == "total 2", "the sweep ended it"
