"""OpenEnv servers of others are environments: played, certified, and each fault of theirs named."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.cli import main
from turnwise.envs.certify.certify import LAWS, certify
from turnwise.envs.certify.over_the_wire import OPENENV
from turnwise.envs.certify.report import UNASKED
from turnwise.envs.messages import Action, ToolCall
from turnwise.envs.openenv.forms import ActionForm, flags_of, observation_of, result_of
from turnwise.envs.remote.address import openenv_place
from turnwise.errors import (
    ContractError,
    EnvironmentDiedError,
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    InfrastructureError,
    UsageError,
)
from turnwise.rollouts.hosts import in_time
from turnwise.rollouts.pool import EnvPool
from turnwise.verdicts import Status

from ..service.environment_servers import TOKEN, serving
from . import openenv_server as games
from .openenv_server import Cards, Tools, playing

FAULTS = [
    (games.IgnoresSeed, "same_seed_same_episode"),
    (games.IgnoresSeed, "two_processes_agree"),
    (games.SharesCards, "seeds_do_not_interfere"),
    (games.StepsAfterTheEnd, "over_means_over"),
    (games.Raises, "any_action_is_answered"),
    (games.Raises, "no_way_out"),
    (games.PaysForNothing, "null_at_floor"),
]
"""A server's fault, and the law that names it."""


@pytest.fixture(scope="module")
def cards() -> Iterator[str]:
    with playing() as id:
        yield id


@pytest.mark.slow
@pytest.mark.parametrize(("game", "law"), FAULTS, ids=[f"{game.__name__}-{law}" for game, law in FAULTS])
def test_a_fault_of_an_openenv_server_is_named(game: type[Cards], law: str) -> None:
    with playing(game) as id:
        (verdict,) = certify(id, quick=True, laws=[law]).verdicts
    assert verdict.status is Status.FAIL, f"{game.__name__} must break {law}: {verdict.reason}"


@pytest.mark.slow
def test_a_healthy_server_is_certified_and_each_untried_law_says_why(cards: str) -> None:
    chosen = [law.name for law in LAWS if law.name not in ("no_way_out", "observations_bounded", "blind_play")]
    certificate = certify(cards, quick=True, laws=chosen)
    assert certificate.passed, str(certificate)
    assert "random play succeeds in" in str(certificate), "a number to read, since OpenEnv declares no floor"
    skipped = {verdict.law: verdict.reason for verdict in certificate.verdicts if verdict.status is Status.SKIP}
    assert all(skipped[law].startswith(UNASKED) for law in OPENENV)
    assert set(skipped) - set(OPENENV) == {"tools_described", "tools_never_raise", "bad_calls_change_nothing"}


@pytest.mark.slow
def test_the_laws_of_tools_are_tried_on_a_server_of_tools() -> None:
    laws = ["tools_described", "bad_calls_change_nothing", "over_means_over", "replay_equals_original"]
    with playing(Tools) as id:
        certificate = certify(id, quick=True, laws=laws)
        env = tw.make(id)
        first, _ = env.reset(seed=3)
        answer, *_, info = env.step(ToolCall("guess", {"guess": "up"}, "c1"))
        both, *_ = env.step(Action(tool_calls=(ToolCall("guess", {"guess": "higher"}), ToolCall("none"))))
        said, *_, unread = env.step("higher")
        env.close()
    assert certificate.passed, str(certificate)
    assert first.text.startswith("A game of cards.\nThe card is")
    assert (answer.messages[0].role, answer.messages[0].tool_call_id) == ("tool", "c1")
    assert answer.text == "Error: guess must be higher or lower"
    assert info["tool_errors"] == ["guess"]
    assert both.messages[0].name == "guess"
    assert unread["unparsed"]
    assert "You have: guess" in said.text


def test_an_episode_has_its_seed_its_end_and_a_fork(cards: str) -> None:
    env, other = tw.make(cards), tw.make(cards)
    try:
        assert env.reset(seed=5)[0] == other.reset(seed=5)[0]
        assert "Answer with the guess (higher or lower)" in env.reset(seed=5)[0].text
        unread = env.step("sideways")
        assert unread[4]["unparsed"]
        assert "cannot read your action" in unread[0].text or "not JSON" in unread[0].text
        fork = env.fork()
        ends = [each.step(word) for each in (env, fork) for word in ("higher",)]
        assert ends[0][:4] == ends[1][:4], "a fork repeats the actions on a session of its own"
        fork.close()
        while not (ends[0][2] or ends[0][3]):
            ends[0] = env.step("lower")
        assert (ends[0][2], ends[0][3]) == (True, False), "done is terminated unless metadata says truncated"
        assert ends[0][4]["success"] is (ends[0][1] >= 1.0)
    finally:
        env.close()
        other.close()
    with pytest.raises(ContractError, match="closed"):
        env.reset(seed=1)


@pytest.mark.parametrize(
    ("game", "action", "flags"),
    [
        (games.Truncates, "lower", (0.0, False, True, False)),
        (games.Succeeds, "lower", (0.2, True, False, True)),
        (games.Move, '{"row": 1, "column": 2}', (1.0, True, False, True)),
        (games.Move, '```json\n{"row": 1, "column": 2}\n```', (1.0, True, False, True)),
    ],
)
def test_metadata_and_forms(game: type[Cards], action: str, flags: tuple[float, bool, bool, bool]) -> None:
    with playing(game) as id:
        env = tw.make(id, instructions="Play.")
        assert env.reset(seed=0)[0].messages[0].text == "Play."
        _, reward, terminated, truncated, info = env.step(action)
        env.close()
    assert (reward, terminated, truncated, info["success"]) == flags


def test_a_text_field_takes_the_text_as_it_is() -> None:
    schema = {"properties": {"message": {"type": "string"}, "metadata": {}}, "required": ["message"]}
    form = ActionForm.of(schema)
    assert form.action('{"message": 1}') == {"message": '{"message": 1}'}
    assert form.instructions == "Answer with the message and nothing else."


def test_observations_of_any_form_become_text() -> None:
    assert observation_of({"text": "a", "done": True, "other": None}).text == "a"
    assert json.loads(observation_of({"board": [1], "note": "x"}).text) == {"board": [1], "note": "x"}
    assert observation_of("plain").text == "plain"
    assert observation_of({"text": "t", "messages": [{"odd": 1}]}).text, "a field of that name, and another form"
    part, succeeded = result_of({"result": {"content": [{"type": "text", "text": "4"}], "is_error": False}})
    assert (part.text, succeeded) == ("4", True)
    with pytest.raises(EnvironmentFailedError, match="not a number"):
        flags_of({"reward": "much"})


def test_a_reset_waits_for_a_place() -> None:
    with playing(places=1) as id:
        first, second = tw.make(id), tw.make(id)
        first.reset(seed=1)
        timer = threading.Timer(0.3, first.close)
        timer.start()
        assert second.reset(seed=1)[0].text
        timer.join()
        second.close()


def test_a_server_with_one_place_is_certified_as_far_as_that_goes() -> None:
    laws = ["begins", "same_seed_same_episode", "seeds_do_not_interfere", "over_means_over"]
    with playing(places=1) as id:
        certificate = certify(id, quick=True, laws=laws)
    skipped = {verdict.law: verdict.reason for verdict in certificate.verdicts if verdict.status is Status.SKIP}
    assert certificate.passed, str(certificate)
    assert skipped == {"seeds_do_not_interfere": "it needs 2 episodes at a time, and the server has 1 places"}


def test_a_lost_server_is_an_infrastructure_failure() -> None:
    with playing() as id:
        env = tw.make(id)
        env.reset(seed=1)
    with pytest.raises(EnvironmentDiedError, match="closed the session"):
        env.step("higher")
    env.close()


def test_the_command_evaluates_on_an_openenv_server(cards: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["eval", cards, "--policy", "random", "-n", "4", "--out", str(tmp_path / "run"), "--no-report"])
    assert not ended.value.code
    episodes = tw.load_episodes(tmp_path / "run" / "episodes")
    assert len(episodes) == 4
    assert {episode.env_id for episode in episodes} == {cards}
    assert all(episode.scored for episode in episodes)


def test_our_own_server_is_an_openenv_server_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_TOKEN", TOKEN)
    with serving(["turnwise/Maze-v0"]) as server:
        place = server.address.removeprefix("ws://")
        there = tw.connect(f"openenv://{place}/openenv/turnwise/Maze-v0")
        local, remote = tw.make("turnwise/Maze-v0"), there.make()
        assert remote.reset(seed=4)[0].messages[1:] == local.reset(seed=4)[0].messages
        one, other = local.step(local.oracle()), remote.step(Action.of(local.random_action(tw.Rng(0))))
        assert type(one[1]) is type(other[1])
        remote.close()
        with pytest.raises(UsageError, match=r"not an OpenEnv server \(HTTP 404"):
            tw.connect(f"openenv://{place}/nowhere")


def test_a_server_out_of_reach_is_not_judged() -> None:
    with playing() as id:
        pass
    with pytest.raises(InfrastructureError, match="cannot reach"):
        certify(id, quick=True)


def test_addresses(cards: str) -> None:
    assert str(openenv_place("openenv+tls://h")[0]) == "wss://h:443"
    assert openenv_place("openenv://h:8000/openenv/a/B-v0/")[1] == "openenv/a/B-v0"
    with pytest.raises(UsageError, match="no port"):
        tw.make("openenv://host")
    with pytest.raises(UsageError, match=f"if it is an OpenEnv server, write {cards}"):
        tw.connect(cards.replace("openenv", "ws"))


REAL = """
import random, sys
import uvicorn
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

class Guess(Action):
    number: int

class Told(Observation):
    text: str = ""

class Numbers(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    def __init__(self):
        super().__init__()
        self.steps = 0
    def reset(self, seed=None, episode_id=None, **more):
        self.steps, self.secret = 0, random.Random(seed).randint(1, 8)
        return Told(text="Guess a number from 1 to 8.", done=False)
    def step(self, action, timeout_s=None, **more):
        self.steps += 1
        right = action.number == self.secret
        told = "Right." if right else "Higher." if action.number < self.secret else "Lower."
        return Told(text=told, done=right, reward=1.0 if right else 0.0)
    @property
    def state(self):
        return State(step_count=self.steps)

app = create_app(Numbers, Guess, Told, env_name="numbers", max_concurrent_envs=32)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""


@pytest.mark.shift
@pytest.mark.skipif(
    "OPENENV_PYTHON" not in os.environ,
    reason="NOT TESTED against OpenEnv's own server: python -m venv v && v/bin/pip install openenv==0.10.0, and set "
    "OPENENV_PYTHON=v/bin/python",
)
def test_openenvs_own_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        unused_port = free.getsockname()[1]
    process = subprocess.Popen([os.environ["OPENENV_PYTHON"], "-c", REAL, str(unused_port)])
    id = f"openenv://127.0.0.1:{unused_port}"
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                env = tw.make(id)
                break
            except Exception:
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.2)
        env.reset(seed=2)
        assert "cannot read your action" in env.fork().step('"x"')[0].text
        low, high, over = 1, 8, False
        while not over:
            middle = (low + high) // 2
            observation, reward, over, _, info = env.step(str(middle))
            low, high = (middle + 1, high) if "Higher" in observation.text else (low, middle - 1)
        assert (reward, info["success"]) == (1.0, True)
        env.close()
        laws = ["same_seed_same_episode", "replay_equals_original", "seeds_do_not_interfere", "any_action_is_answered"]
        certificate = certify(id, quick=True, laws=laws)
        assert certificate.passed, str(certificate)
    finally:
        process.kill()
        process.wait()


async def test_a_fork_that_waits_for_a_place_stops_at_its_time_limit() -> None:
    with playing(places=1) as id:
        pool = EnvPool.of(id)
        host = await pool.take()
        await host.reset(tw.TaskSpec("Cards"))
        with pytest.raises(EnvironmentTimeoutError, match="no answer to fork"):
            await in_time(host.fork(), "fork", 0.2)
        pool.give(host, reusable=False)
        await pool.close()


@pytest.mark.parametrize(("pays", "success"), [((0.5, 0.5), False), ((-0.25, 1.0), True)])
def test_success_is_the_last_calls_reward_and_the_return_is_that_of_all(
    pays: tuple[float, float], success: bool
) -> None:
    with playing(games.PaysByCall) as id:
        env = tw.make(id)
        env.reset(seed=0)
        calls = tuple(ToolCall(name, {"pays": paid}) for name, paid in zip(("pay", "end"), pays, strict=True))
        _, reward, terminated, _, info = env.step(Action(tool_calls=calls))
        env.close()
    assert (reward, terminated, info["success"]) == (sum(pays), True, success)
