"""Limits of a server: memory and episodes of the processes of environments, and requests per second over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pydantic
import pytest

import turnwise as tw
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.rollouts.process_memory import occupied
from turnwise.service.environments.pace import Rate
from turnwise.service.environments.settings import ServeConfig

from .environment_servers import OPERATOR, OTHER, TOKEN, Raw, act, serving, text_of, until

ID = "test/Hoarder-v0"
MB = 10**6
LIMIT = 600 * MB
"""An environment without data occupies a sixth of it."""


class Hoarder(tw.TurnEnv):
    """Keeps as many megabytes as an action says, in its process or in one below it; every answer is its process id."""

    max_turns = 20
    kept: ClassVar[list[bytearray]] = []
    below: ClassVar[list[Any]] = []

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return str(os.getpid())

    def act(self, action: tw.Action) -> Any:
        word, _, number = action.text.partition(" ")
        if word == "keep":
            self.kept.append(bytearray(b"x") * (int(number) * MB))
        if word == "below":
            code = f"import time; kept = b'x' * ({number} * 10**6); print(flush=True); time.sleep(60)"
            self.below.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE))
            self.below[-1].stdout.readline()
        if word == "nap":
            time.sleep(float(number))
        if word == "end":
            return tw.success(str(os.getpid()))
        return tw.running(str(os.getpid()))


def task(seed: int = 0) -> tw.TaskSpec:
    return tw.TaskSpec("Hoarder", seed=seed)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # where the server's processes find this module
    tw.register(ID, Hoarder)


def hoarding(**settings: Any) -> Any:
    return serving([ID], isolation="process", heartbeat=30.0, **settings)


def started(client: Raw, seed: int = 0) -> tuple[str, str]:
    """A new episode, and the process that it is in."""
    episode = os.urandom(16).hex()
    answer = client.ask("reset", episode, env=ID, task=task(seed).to_json())
    assert "observation" in answer, answer
    return episode, text_of(answer)


def alive(pid: str) -> bool:
    return os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("where", ["keep", "below"])
def test_a_process_that_occupies_too_much_ends_alone(where: str, caplog: pytest.LogCaptureFixture) -> None:
    with hoarding(process_memory=LIMIT) as server, Raw(server) as client, Raw(server, OPERATOR) as operator:
        other, _ = started(client)
        episode, pid = started(operator)
        client.ask("step", other, turn=0, action=act("keep 100"))
        answer = operator.ask("step", episode, turn=0, action=act(f"{where} {LIMIT // MB}"))
        until(lambda: not alive(pid))
        if "observation" in answer:  # it ended after the step, and not in it
            answer = operator.ask("step", episode, turn=1, action=act("stay"))
        assert answer["kind"] == "died", answer
        assert "more than 0.60 GB (process_memory)" in answer["message"]
        assert text_of(client.ask("step", other, turn=1, action=act("stay"))).isdigit(), "it ended another, too"
        assert server.episodes.places.load == 1, "a failed episode frees its place"
        assert started(client)[1] != pid
    assert "occupied 0." in caplog.text


def test_forks_share_the_fate_of_their_process() -> None:
    with hoarding(process_memory=LIMIT) as server, Raw(server) as client:
        episode, pid = started(client)
        fork = os.urandom(16).hex()
        client.ask("fork", episode, **{"as": fork})
        client.ask("close", episode)
        client.send("step", fork, turn=0, action=act(f"keep {LIMIT // MB}"))
        until(lambda: not alive(pid))
        client.next()
        assert client.ask("step", fork, turn=1, action=act("stay"))["kind"] in {"died", "lost"}


def test_a_process_that_came_near_the_limit_plays_no_further_episode() -> None:
    with hoarding(process_memory=LIMIT) as server, Raw(server) as client:
        episode, pid = started(client)
        client.ask("step", episode, turn=0, action=act("end"))
        episode, again = started(client)
        assert again == pid, "a process without much memory is used again"
        client.ask("step", episode, turn=0, action=act("keep 430"))  # with its modules more than 480, and less than 600
        until(lambda: any(used > 0.8 * LIMIT for used in server.episodes.limits._occupied.values()))
        assert client.ask("step", episode, turn=1, action=act("end"))["terminated"], "the episode is played to its end"
        until(lambda: not alive(pid))
        assert started(client)[1] != pid


def test_a_process_that_was_ended_between_two_calls_is_not_used_again() -> None:
    with hoarding(capacity=1) as server, Raw(server) as client:
        episode, pid = started(client)
        server.episodes.hosts[0].kill("was ended: a test")
        assert client.ask("close", episode) == {}
        again, other = started(client)
        assert other != pid
        client.ask("close", again)
        os.kill(int(other), signal.SIGKILL)  # while it is idle
        until(lambda: all(host.ended for host in server.catalog.hosts if str(host.pid) == other))
        assert started(client)[1] not in {pid, other}


def test_the_sweep_goes_on_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(reattach=0.0) as server, Raw(server) as client:
        failed: list[object] = []

        async def fail(hosts: object) -> None:
            failed.append(hosts)
            if len(failed) == 1:
                raise OSError(24, "too many open files")

        monkeypatch.setattr(server.episodes.limits, "enforce", fail)
        client.reset()
        client.socket.close()
        until(lambda: len(failed) > 1 and server.episodes.places.load == 0)


def test_rates_below_one_let_requests_through() -> None:
    async def waits() -> list[float]:
        rate = Rate(0.1)
        return [rate.take(), rate.take()]

    first, second = asyncio.run(waits())
    assert first == 0
    assert second == pytest.approx(10, abs=0.5)


def test_a_process_plays_as_many_episodes_as_allowed() -> None:
    with hoarding(process_episodes=2) as server, Raw(server) as client:
        pids = []
        for seed in range(4):
            episode, pid = started(client, seed)
            assert client.ask("step", episode, turn=0, action=act("end"))["terminated"]
            pids.append(pid)
        assert pids[0] == pids[1] != pids[2] == pids[3]
        until(lambda: not alive(pids[0]))


def test_an_episode_that_always_needs_too_much_has_no_score() -> None:
    with hoarding(process_memory=LIMIT) as server:
        agent = Scripted(f"keep {LIMIT // MB}", "nap 20", "end")
        (episode,) = tw.run(f"turnwise://{server.address[5:]}/{ID}", agent, [task()], retries=1, backoff=0.0)
        assert episode.outcome == "infra_failed"
        assert episode.attempts == 2
        assert "EnvironmentDiedError" in str(episode.error)


class Scripted:
    """An agent that says these words, again for each attempt."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def start(self, context: EpisodeContext) -> Any:
        words = iter(self.words)

        class Playing:
            async def act(self, observation: tw.Observation) -> Decision:
                return Decision(tw.Action(next(words)))

        return Playing()


def test_limits_need_processes() -> None:
    with pytest.raises(pydantic.ValidationError, match=r"process_memory and process_episodes need .*=process; got .*d"):
        ServeConfig(isolation="thread", process_memory=1e9, process_episodes=3)


def test_memory_of_processes_that_ended_is_not_there() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    found = occupied([os.getpid(), child.pid])
    assert list(found) == [os.getpid()]
    assert found[os.getpid()] > 10 * MB


def test_requests_over_http_have_a_rate_per_client() -> None:
    with serving(["turnwise/Maze-v0"], rate=2.0) as server, ThreadPoolExecutor(40) as pool:
        url = server.address.replace("ws", "http") + "/metadata"

        def asked(token: str) -> httpx.Response:
            return httpx.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=30)

        answers = list(pool.map(asked, [TOKEN] * 40))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert "more than 2 requests per second (rate)" in refused[0].json()["detail"]
        assert int(refused[0].headers["Retry-After"]) >= 1
        assert asked(OTHER).status_code == 200, "each token has its own rate"
        assert asked("wrong-token-of-nobody").status_code == 401
