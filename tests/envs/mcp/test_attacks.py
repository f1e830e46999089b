"""No way out of the count: what an agent makes a server do is the agent's own failure, or nothing."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.agents.scripted import FunctionAgent
from turnwise.envs.mcp import connection, tools
from turnwise.envs.mcp.connection import ServerLostError
from turnwise.envs.mcp.spec import ServerSpec
from turnwise.errors import InfrastructureError
from turnwise.rollouts.episode import Outcome
from turnwise.rollouts.runner import run

from ...shifts import core_sample, sampled
from ..hostile import all_attempts, played, unscored
from .around import HERE, Around, raw, said
from .attacks import EVERYTHING, FILES, HANGS, MEMORY, TIME, Attempts, misbehaving, on_the_raw_server
from .test_real_servers import node

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="NOT TESTED: pip install 'turnwise[mcp]'"),
]
RAW = on_the_raw_server()
QUICK = {name: tries for name, tries in RAW.items() if not any(part in name for part in HANGS)}
HANGING = {name: tries for name, tries in RAW.items() if name not in QUICK}


@pytest.fixture
def unanswering(monkeypatch: pytest.MonkeyPatch) -> ServerSpec:
    """A server that has little time for a call and for the probe after it: it never answers in these tests."""
    monkeypatch.setattr(connection, "PROBE", 0.2)
    return raw(timeout=1.0)


@pytest.fixture
def hanging(unanswering: ServerSpec) -> Iterator[Around]:
    """An episode with it."""
    env = Around(servers=[unanswering])
    env.reset(seed=0)
    yield env
    env.close()


# -- attempts ------------------------------------------------------------------------------------------------------


def test_there_are_forty_attempts() -> None:
    assert len(RAW) >= 40


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(sampled(list(QUICK), 12, key="attempts on a server"), id="some"),
        pytest.param(list(QUICK), id="all", marks=pytest.mark.shift("mcp")),
    ],
)
def test_attempts_on_a_server_are_scored(names: list[str]) -> None:
    env = Around(servers=[raw(timeout=1.0)])
    env.reset(seed=0)
    assert unscored(env, {name: QUICK[name] for name in names}) == {}
    env.close()


@pytest.mark.parametrize("name", sampled(list(HANGING), 3, key="hanging"))
def test_attempts_that_hang_are_scored(hanging: Around, name: str) -> None:
    assert unscored(hanging, {name: HANGING[name]}) == {}


@pytest.mark.shift("mcp")
def test_all_attempts_that_hang_are_scored(hanging: Around) -> None:
    assert unscored(hanging, HANGING) == {}


def test_odd_values_are_scored(hanging: Around) -> None:
    tries = all_attempts(hanging)
    assert unscored(hanging, {name: tries[name] for name in sampled(list(tries), 40, key="odd values for mcp")}) == {}


@pytest.mark.shift("mcp")
def test_all_odd_values_are_scored(hanging: Around) -> None:
    assert unscored(hanging, all_attempts(hanging)) == {}


def spec_of(name: str) -> tuple[ServerSpec, Attempts]:
    """A third party's server, and the attacks on it."""
    if name == "time":
        if importlib.util.find_spec("mcp_server_time") is None:
            pytest.skip("NOT TESTED: PyPI package mcp-server-time: run scripts/install-mcp-servers")
        inherit = [name for name in ("PYTHONPATH",) if name in os.environ]
        return ServerSpec("time", (sys.executable, "-m", "mcp_server_time"), inherit=inherit), TIME
    if name == "files":
        return ServerSpec("files", (*node("filesystem"), "{folder}"), timeout=5.0), FILES
    if name == "memory":
        return ServerSpec("memory", node("memory"), env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"}), MEMORY
    return ServerSpec("everything", (*node("everything"), "stdio"), inherit=["HOME"], timeout=5.0), EVERYTHING


@pytest.mark.parametrize("count", [2, pytest.param(1000, id="all", marks=pytest.mark.shift)])
@pytest.mark.parametrize("name", core_sample(["time", "files", "memory", "everything"], 2, key="servers of others"))
def test_attempts_on_servers_of_others_are_scored(name: str, count: int) -> None:
    spec, own = spec_of(name)
    env = Around(servers=[spec])
    env.reset(seed=0)
    odd = all_attempts(env)
    for tries in (own, odd):
        chosen = sampled(list(tries), count, key=f"attempts on {name}")
        assert unscored(env, {each: tries[each] for each in chosen}) == {}
    env.close()


# -- what becomes of them ------------------------------------------------------------------------------------------


def test_a_call_that_takes_too_long_is_refused_and_the_server_stays(odd_server: ServerSpec) -> None:
    env = Around(servers=[odd_server])
    env.reset(seed=0)
    said(env, "count")
    assert said(env, "sleep") == "Error: sleep: there was no answer within 2 s (timeout); the call was cancelled"
    assert said(env, "count") == "2", "the session goes on, and the server has kept what it knew"
    assert said(env, "cancelled") == "1", "the server was told"
    env.close()


@pytest.fixture
def odd_server() -> ServerSpec:
    """The SDK's own server, with little time for a call."""
    inherit = [name for name in ("PYTHONPATH",) if name in os.environ]
    return ServerSpec("odd", (sys.executable, str(HERE / "odd_server.py")), inherit=inherit, timeout=2.0)


def test_a_server_that_hangs_is_the_agents_failure(hanging: Around) -> None:
    info = played(hanging, [tw.ToolCall("count"), tw.ToolCall("hang")])
    assert (info["success"], info["turn"]) == (False, 2)


def test_a_server_that_dies_of_a_call_is_the_agents_failure(env: Around) -> None:
    observation, reward, terminated, _, info = env.step(tw.ToolCall("die"))
    assert observation.text.startswith("Error: a server of your tools has died.")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_a_server_that_dies_of_two_calls_together_is_the_agents_failure(env: Around) -> None:
    assert said(env, "misbehave", how="die at the next count") == "done"
    assert env.step(tw.ToolCall("count"))[2]


def test_where_repeating_takes_too_long_the_repetition_of_a_run_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "REPEATING", 0.0)
    agent = FunctionAgent(lambda _: misbehaving("exit 1"))
    [episode] = run(lambda: Around(servers=[raw()]), agent, [tw.TaskSpec("Around", seed=7)], retries=1, backoff=0.0)
    assert (episode.outcome, episode.attempts, episode.after_action) == (Outcome.COMPLETED, 2, 1)
    assert episode.score is not None
    assert not episode.score.success


def test_a_server_that_somebody_else_ended_is_infrastructure(env: Around) -> None:
    os.kill(int(said(env, "pid")), signal.SIGKILL)
    with pytest.raises(ServerLostError, match="died while it was asked for 'add'"):
        said(env, "add")


class Judged(Around):
    """An episode that is judged by what its server tells in the end."""

    max_turns = 3

    async def judge(self) -> tw.Score:  # type: ignore[override]
        return tw.Score(await self.use("count") == "1")


@pytest.mark.parametrize("how", ["become deaf", "write much to the next count", "die at the next count"])
@pytest.mark.parametrize("end", [tw.ToolCall("stop"), tw.ToolCall("echo")])
def test_a_server_that_cannot_be_judged_any_more_is_the_agents_failure(
    unanswering: ServerSpec, how: str, end: tw.ToolCall
) -> None:
    env = Judged(servers=[unanswering])
    env.reset(seed=0)
    said(env, "echo")  # after which the SDK knows the tools, and does not ask for them when it hears an answer
    assert said(env, "misbehave", how=how) == "done"
    _, reward, terminated, _, info = env.step(end)
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    env.close()


@pytest.mark.usefixtures("unanswering")
def test_a_server_that_hangs_while_none_starts_is_infrastructure(tmp_path: Path) -> None:
    env = Around(servers=[raw("--until", str(tmp_path / "then"), timeout=1.0)])
    env.reset(seed=0)
    said(env, "count")
    (tmp_path / "then").touch()
    with pytest.raises(InfrastructureError, match="did not start"):
        said(env, "hang")
    env.close()


def test_an_answer_that_is_too_long_is_refused(env: Around) -> None:
    assert said(env, "misbehave", how="17 MiB") == "Error: misbehave: the server's answer is longer than 16777216 bytes"
    assert said(env, "count") == "1"


def test_a_server_without_state_is_started_again() -> None:
    env = Around(servers=[raw(name="no state", stateless=True)])
    env.reset(seed=0)
    assert said(env, "die") == "Error: die: the server dies of this call; it is started again"
    assert said(env, "count") == "1"
    os.kill(int(said(env, "pid")), signal.SIGKILL)
    assert said(env, "count") == "1", "a call that another server answers is not to blame"


def test_a_run_scores_it_at_once() -> None:
    agent = FunctionAgent(lambda _: misbehaving("signal 11"))
    [episode] = run(lambda: Around(servers=[raw()]), agent, [tw.TaskSpec("Around")], retries=1, backoff=0.0)
    assert (episode.outcome, episode.attempts, episode.after_action) == (Outcome.COMPLETED, 1, 0)
    assert episode.score is not None
    assert not episode.score.success
