"""``turnwise://host:port,host:port/ID``: an environment on several servers, of which one may be lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.envs.messages import Action
from turnwise.envs.remote.address import Address, token_variable
from turnwise.errors import InfrastructureError, UsageError
from turnwise.rollouts import trl_rollout
from turnwise.rollouts.branching import branch_episodes
from turnwise.rollouts.branching_vine import StateValues
from turnwise.rollouts.host_socket import SocketHost
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool

from ..rollouts.test_for_trl import END, Trainer
from ..service.environment_servers import ID, LOOP, OTHER, TOKEN, Tally, serving, task, until


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)
    Tally.acted.clear()


def at(*places: Any) -> str:
    named = [place if isinstance(place, str) else place.address.removeprefix("ws://") for place in places]
    return f"turnwise://{','.join(named)}/{ID}"


@contextlib.contextmanager
def unused() -> Iterator[str]:
    """A place where nothing answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        yield f"127.0.0.1:{taken.getsockname()[1]}"


class Adds:
    """An agent that adds twice and ends, each after some seconds; ``before`` gets the number of actions so far."""

    def __init__(self, before: Any = lambda acted: None, seconds: float = 0.0) -> None:
        self.before, self.seconds, self.acted = before, seconds, 0

    def start(self, context: EpisodeContext) -> Any:
        return _Adds(self)


class _Adds:
    def __init__(self, agent: Adds) -> None:
        self.agent, self.turn = agent, 0

    async def act(self, observation: tw.Observation) -> Decision:
        self.agent.before(self.agent.acted)
        self.agent.acted += 1
        self.turn += 1
        await asyncio.sleep(self.agent.seconds)
        return Decision(Action("end" if self.turn == 3 else "add"))


def test_episodes_are_spread_by_the_places_of_each_server() -> None:
    loads: list[tuple[int, int]] = []
    with serving(capacity=2) as small, serving(capacity=4) as large:
        id = at(small, large)
        pool = EnvPool.of(id)
        assert pool.servers is not None
        assert pool.servers.places == 6

        def look(_: int) -> None:
            loads.append((small.episodes.places.load, large.episodes.places.load))

        episodes = list(tw.run(id, Adds(look), [task(seed) for seed in range(24)], concurrency=16))
        assert max(first for first, _ in loads) == 2
        assert max(second for _, second in loads) == 4
    assert [episode.outcome for episode in episodes] == ["completed"] * 24
    assert {episode.attempts for episode in episodes} == {1}
    assert Counter(Tally.acted) == {f"{n}:{word}": count for n in range(24) for word, count in (("add", 2), ("end", 1))}


def test_a_lost_server_loses_no_task() -> None:
    with serving(capacity=3, reattach=0.3) as stays, serving(capacity=3, reattach=0.3) as goes:

        def stop(acted: int) -> None:
            if acted == 10:
                LOOP.wait(goes.aclose(), 60)

        tasks = [task(seed) for seed in range(12)]
        episodes = list(tw.run(at(stays, goes), Adds(stop), tasks, concurrency=6, retries=2, backoff=0.05))
    assert [episode.outcome for episode in episodes] == ["completed"] * 12
    assert sorted(episode.task.seed for episode in episodes) == list(range(12))
    assert any(episode.attempts > 1 for episode in episodes), "nothing was lost"
    assert all(episode.score is not None and episode.score.success for episode in episodes), (
        "what was lost is played again, not scored"
    )


def test_what_a_lost_server_played_waits_for_places_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three places of four are lost; nothing asks the full server, whose own queue would refuse it in the end."""
    monkeypatch.setattr("turnwise.rollouts.host_socket.WAIT", 0.0)
    with serving(capacity=1, reattach=0.3) as stays, serving(capacity=3, reattach=0.3) as goes:

        def stop(acted: int) -> None:
            if acted == 5:
                LOOP.wait(goes.aclose(), 60)

        tasks = [task(seed) for seed in range(12)]
        agent = Adds(stop, seconds=0.2)
        episodes = list(tw.run(at(stays, goes), agent, tasks, concurrency=4, retries=2, backoff=0.05))
    assert [episode.outcome for episode in episodes] == ["completed"] * 12


def test_in_lock_step_who_waits_for_a_place_of_a_lost_server_holds_nobody_up() -> None:
    found = list[dict[str, Any]]()
    with serving(capacity=1, reattach=0.3) as stays, serving(capacity=1, reattach=0.3) as goes:

        class Ends(Trainer):
            def _generate_single_turn(self, prompts: list[list[int]], *rest: Any) -> Any:
                if len(self.batches) == 1:
                    LOOP.wait(goes.aclose(), 60)
                self.say = lambda text: ("add" if len(self.batches) < 4 else "end") + END
                return super()._generate_single_turn(prompts, *rest)

        prompts = [[{"role": "user", "content": json.dumps(task(seed).to_json())}] for seed in range(2)]
        rollout, trainer = trl_rollout(at(stays, goes), options=RunOptions(backoff=0.05)), Ends()
        playing = threading.Thread(target=lambda: found.append(rollout(prompts, trainer)), daemon=True)
        playing.start()
        playing.join(30)
        assert found, "both episodes wait: one for the other's place, and the other for a batch of two"
        rollout.close()
    assert found[0]["outcome"] == ["completed"] * 2
    assert [len(batch) for batch in trainer.batches[:2]] == [2, 2]


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "one of two"])
def test_a_server_that_dies_is_named_at_once_and_when_it_is_back(others: int, caplog: pytest.LogCaptureFixture) -> None:
    """In one line each, although several episodes wait for it; the first long before the wait for it ends."""
    with contextlib.ExitStack() as stack, caplog.at_level("WARNING"):
        stay = [stack.enter_context(serving(capacity=3, reattach=5)) for _ in range(others)]
        first = stack.enter_context(serving(capacity=3, reattach=5))
        port = int(first.address.rpartition(":")[2])
        kept: list[Any] = []

        def kill(acted: int) -> None:
            if acted == 4:
                LOOP.wait(first.aclose(), 60)  # it forgets its episodes, as after a crash

        def named() -> None:
            until(lambda: "lost a server" in caplog.text, why="the dead server is not named")
            kept.append(stack.enter_context(serving(capacity=3, port=port)))

        reporter = threading.Thread(target=named)
        reporter.start()
        episodes = list(tw.run(at(first, *stay), Adds(kill), [task(seed) for seed in range(9)], backoff=0.01))
        reporter.join()
    assert [episode.outcome for episode in episodes] == ["completed"] * 9
    lines = [record.message for record in caplog.records if first.address in record.message]
    assert lines == [
        f"lost a server, for which its episodes wait up to 5 s: cannot reach {first.address}: Connection refused; "
        "is `turnwise serve` running there?",
        f"{first.address} is back",
    ]


async def test_a_failed_environment_does_not_count_against_a_healthy_server() -> None:
    with serving(capacity=4) as one, serving(capacity=4) as other:
        pool = await asyncio.to_thread(EnvPool.of, at(one, other))
        pool.give(await pool.take(), reusable=False)
        hosts = [await pool.take() for _ in range(4)]
        assert set(Counter(host.connection.address for host in hosts if isinstance(host, SocketHost)).values()) == {2}
        for host in hosts:
            pool.give(host, reusable=True)
        await pool.close()


def test_a_server_that_does_not_answer_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with serving(capacity=2) as server, unused() as place:
        id = at(place, server)
        env = tw.make(id)
        assert env.reset(seed=3)[0].text == "seed 3", "the first that answers"
        env.close()
        with caplog.at_level("WARNING"):
            episodes = list(tw.run(id, Adds(), [task(seed) for seed in range(4)]))
        assert [episode.outcome for episode in episodes] == ["completed"] * 4
        assert f"cannot reach ws://{place}" in caplog.text
    with unused() as one, unused() as other, pytest.raises(InfrastructureError) as refused:
        EnvPool.of(at(one, other))
    assert f"cannot reach ws://{one}" in str(refused.value)
    assert f"cannot reach ws://{other}" in str(refused.value), "all that are absent are named"


def test_servers_of_different_versions_are_not_mixed() -> None:
    with (
        serving(capacity=1) as one,
        serving(capacity=1, env_kwargs={"max_turns": 3}) as other,
        pytest.raises(UsageError, match="have changed"),
    ):
        list(tw.run(at(one, other), Adds(), [task(seed) for seed in range(4)], concurrency=2))


def test_each_server_gets_its_own_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(capacity=1, tokens=(TOKEN,)) as one, serving(capacity=1, tokens=(OTHER,)) as two:
        places = [server.address.removeprefix("ws://") for server in (one, two)]
        monkeypatch.setenv("TURNWISE_TOKEN", f"{places[0]}={TOKEN},{places[1]}={OTHER}")
        assert token_variable(at(one, two)) == {"TURNWISE_TOKEN": f"{places[0]}={TOKEN},{places[1]}={OTHER}"}
        episodes = list(tw.run(at(one, two), Adds(), [task(seed) for seed in range(4)], concurrency=2))
        assert [episode.outcome for episode in episodes] == ["completed"] * 4
        monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)
        with pytest.raises(UsageError, match="refused the token"):
            EnvPool.of(at(one, two))


async def test_a_fork_takes_a_place_on_the_server_of_its_parent() -> None:
    """A new episode waits for a place, or goes elsewhere; the server would refuse it in the end."""
    with serving(capacity=2) as small:
        pool = await asyncio.to_thread(EnvPool.of, at(small))
        async with asyncio.timeout(20), pool:
            parent = await pool.take()
            await parent.reset(task())
            fork = await parent.fork()
            waiting = asyncio.create_task(pool.take())
            await asyncio.sleep(0.3)
            assert not waiting.done(), "parent and fork take both places"
            await fork.close()
            pool.give(await waiting, reusable=True)
            pool.give(parent, reusable=True)


async def test_a_group_that_branches_ends_on_fewer_places_than_it_has_paths() -> None:
    """Paths that have places wait for rollouts, and these must not wait for paths without one."""
    options = RunOptions(concurrency=2, group_size=8, retries=0)
    with serving(["turnwise/Maze-v0"], capacity=4) as server:
        id = f"turnwise://{server.address.removeprefix('ws://')}/turnwise/Maze-v0"
        pool = await asyncio.to_thread(EnvPool.of, id)
        async with asyncio.timeout(60), pool:
            spec = tw.make("turnwise/Maze-v0").tasks().spec(0)
            played = branch_episodes(pool, AlwaysLeft(), [spec], strategy=StateValues(rollouts=1), options=options)
            episodes = [episode async for episode in played]
    assert [episode.outcome for episode in episodes] == ["completed"] * 8
    assert all(episode.lookaheads for episode in episodes)


class AlwaysLeft:
    """An agent whose sessions can be forked."""

    def start(self, context: EpisodeContext) -> Any:
        return self

    async def act(self, observation: tw.Observation) -> Decision:
        return Decision(Action("move left"))

    def fork(self, context: Any = None) -> Any:
        return self


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """A place that accepts connections and never answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(64)
        yield f"127.0.0.1:{taken.getsockname()[1]}"


async def test_a_lost_server_that_does_not_answer_is_tried_beside_the_play(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection never opens while it is silent; nothing but the test's own end waits for it."""
    monkeypatch.setattr("turnwise.envs.remote.connection.OPENING", 0.2)
    with serving(capacity=1) as server, silent() as place:
        pool = await asyncio.to_thread(EnvPool.of, at(server, place))
        monkeypatch.setattr("turnwise.envs.remote.connection.OPENING", 3600.0)
        async with asyncio.timeout(20), pool:
            host = await pool.take()
            waiting = asyncio.create_task(pool.take())  # the only server that answers is full
            await asyncio.sleep(0.05)
            pool.give(host, reusable=True)
            pool.give(await waiting, reusable=True)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("turnwise://a:1,b/x/Y-v0", "names no port"),
        ("turnwise://a:1,/x/Y-v0", "empty place"),
        ("turnwise://a:1, b:2/x/Y-v0", "a space"),
        ("turnwise://a:1,b:2", "names a server, but no environment"),
        ("openenv://a:1,b:2", "several servers"),
        ("nemo://a:1,b:2", "several servers"),
    ],
)
def test_a_wrong_list_of_servers_is_refused_in_one_line(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        tw.make(url)
    assert "\n" not in str(refused.value)


def test_connect_takes_one_server() -> None:
    with pytest.raises(UsageError, match="several servers"):
        tw.connect("ws://a:1,b:2")
    assert Address("a", 1).id_of("x/Y-v0") == "turnwise://a:1/x/Y-v0"
