"""``ToolFaults``: calls fail as declared, the same everywhere, and what was not delivered never happened."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs.registration import registry as gymnasium_registry
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.agents.agent import EpisodeContext, Session
from turnwise.agents.scripted import OracleAgent
from turnwise.envs import registry
from turnwise.envs.certify.trace import plain
from turnwise.envs.wrappers.base import TurnWrapper
from turnwise.envs.wrappers.tool_faults import ToolFaults
from turnwise.errors import UsageError
from turnwise.evals.evaluation import run_evaluation
from turnwise.evals.settings import EvalConfig


class Ledger(tw.ToolEnv):
    """Write the numbers from 1 to 5 in order, then shut the book."""

    max_turns = 6

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.written: list[int] = []
        self.closed = False
        return "Write the numbers from 1 to 5 in order, then shut the book."

    @tw.tool
    def write(self, number: int) -> str:
        """Write a number.

        Args:
            number: number of the item.
        """
        self.written.append(number)
        return f"wrote {number}"

    @tw.tool
    def read(self) -> list[int]:
        """Read what is written."""
        return self.written

    @tw.tool(ends=True)
    def shut(self) -> str:
        """Shut the book."""
        self.closed = True
        return "shut"

    def judge(self) -> tw.Score:
        return tw.Score(self.closed and self.written == [1, 2, 3, 4, 5])

    def oracle(self) -> tw.ToolCall:
        done = len(self.written)
        return tw.ToolCall("write", {"number": done + 1}) if done < 5 else tw.ToolCall("shut")


def write(*numbers: int) -> tw.Action:
    return tw.Action(tool_calls=tuple(tw.ToolCall("write", {"number": n}, id=f"call {n}") for n in numbers))


def texts(observation: tw.Observation) -> list[str]:
    return [message.text for message in observation.messages]


def episode(env: Any, seed: int = 0) -> list[Any]:
    """Return the answer to an oracle that repeats a lost call."""
    answers = [plain(env.reset(seed=seed))]
    while True:
        answer = env.step(env.oracle())
        answers.append(plain(answer))
        if answer[2] or answer[3]:
            return answers


HARD: dict[str, Any] = {"timeouts": 0.3, "errors": 0.3}

# -- what fails, and how -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"timeouts": 1.0}, "Error: write did not answer in time."),
        ({"errors": 1.0}, "Error: write is unavailable for the moment; try again."),
    ],
)
def test_a_call_that_fails_did_not_happen_and_works_when_tried_again(rates: dict[str, Any], said: str) -> None:
    env: Any = ToolFaults(Ledger(), **rates)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(write(1))
    assert texts(observation) == [said]
    assert observation.messages[0].tool_call_id == "call 1"
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["faults"] == [{"tool": "write", "fault": next(iter(rates))[:-1]}]
    assert info["tool_errors"] == ["write"]
    assert (env.unwrapped.written, env.unwrapped.turn, env.turn, info["turn"]) == ([], 0, 1, 1)
    assert texts(env.step(write(1))[0]) == ["wrote 1"]
    assert texts(env.step(write(1))[0]) == [said], "once it got through it may fail again"


def test_a_lost_answer_is_that_of_a_call_that_was_made() -> None:
    env: Any = ToolFaults(Ledger(), lost=1.0)
    env.reset(seed=0)
    assert texts(env.step(write(1))[0]) == ["Error: write did not answer in time."]
    assert env.unwrapped.written == [1], "who waits cannot tell it from a call that was never made"
    assert texts(env.step(write(1))[0]) == ["wrote 1"]
    assert env.unwrapped.written == [1, 1], "whoever tries again without looking does it twice"


def test_what_stands_after_a_failed_call_is_not_made() -> None:
    env: Any = ToolFaults(Ledger(), timeouts=1.0)
    env.reset(seed=0)
    env.step(write(1))
    observation, *_, info = env.step(write(1, 2, 3))
    assert texts(observation) == [
        "wrote 1",
        "Error: write did not answer in time.",
        "Error: write was not called, since a call before it failed.",
    ]
    assert [message.tool_call_id for message in observation.messages] == ["call 1", "call 2", "call 3"]
    assert env.unwrapped.written == [1]
    assert [fault["fault"] for fault in info["faults"]] == ["timeout", "skipped"]


def test_too_many_calls_are_answered_in_few_words() -> None:
    every: list[dict[str, Any]] = [{"timeouts": 1.0}, {"lost": 1.0}, {}]
    for rates in every:
        env: Any = ToolFaults(Ledger(), **rates)
        env.reset(seed=0)
        said = texts(env.step(write(*range(500)))[0])
        assert len(said) == 17
        assert said[-1] == "Error: one message may call 16 tools; 484 were not called."


def test_the_end_of_an_episode_is_never_lost() -> None:
    env: Any = ToolFaults(Ledger(), lost=1.0)
    env.reset(seed=0)
    env.unwrapped.written = [1, 2, 3, 4, 5]
    observation, reward, terminated, _, info = env.step(
        tw.Action(tool_calls=(tw.ToolCall("shut"), tw.ToolCall("read"), tw.ToolCall("no_such_tool")))
    )
    assert texts(observation) == ["Error: shut did not answer in time."]
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_messages_without_calls_pass() -> None:
    env: Any = ToolFaults(Ledger(), timeouts=1.0)
    env.reset(seed=0)
    assert "Call a tool" in env.step("hello")[0].text
    assert env.step(tw.Action(problem="unreadable"))[0].text == "unreadable"
    assert env.unwrapped.turn == 2


@pytest.mark.parametrize("rates", [{"timeouts": 0.1, "errors": 0.2, "lost": 0.05}])
def test_rates_are_rates(rates: dict[str, Any]) -> None:
    env: Any = ToolFaults(Ledger(max_turns=10_000), **rates)
    env.reset(seed=3)
    seen: Counter[str] = Counter()
    for i in range(4000):
        seen.update(fault["fault"] for fault in env.step(write(i))[4].get("faults", ()))
    assert seen["timeout"] == pytest.approx(400, abs=80)
    assert seen["error"] == pytest.approx(800, abs=110)
    assert seen["lost"] == pytest.approx(200, abs=60)


# -- turns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_an_oracle_that_tries_again_solves_what_leaves_no_turn_to_spare(seed: int) -> None:
    env: Any = ToolFaults(Ledger(), **HARD, seed=seed)
    last = episode(env, seed)[-1]
    assert last[4]["success"], "a turn in which nothing got through does not count in the environment"
    assert env.turn <= env.max_turns == 12
    assert env.unwrapped.turn == 6


def test_there_is_a_limit_all_the_same() -> None:
    for cuts in (False, True):
        env: Any = ToolFaults(Ledger(), timeouts=1.0)
        env.unwrapped.max_turns_truncates = cuts
        env.reset(seed=0)
        for i in range(12):
            _, _, terminated, truncated, info = env.step(write(i))
        assert (terminated, truncated, info["success"], env.turn) == (not cuts, cuts, False, 12)
        assert info["out_of_turns"]
        assert env.unwrapped.turn == 0
    assert ToolFaults(Ledger(), lost=0.5).max_turns == 6, "where every call gets through there is nothing to add"


# -- missing tools -----------------------------------------------------------------------------------------------


def names(env: Any) -> list[str]:
    return [tool.name for tool in env.tools]


def test_a_missing_tool_is_not_listed_and_cannot_be_called() -> None:
    env: Any = ToolFaults(Ledger(), missing=1.0, keep=("write", "shut"))
    env.reset(seed=0)
    assert names(env) == ["write", "shut"]
    observation, *_, info = env.step(tw.Action(tool_calls=(tw.ToolCall("read"), *write(1).tool_calls)))
    assert texts(observation) == ["Error: there is no tool 'read'. You have: write, shut.", "wrote 1"]
    assert info["faults"] == [{"tool": "read", "fault": "missing"}]
    unknown = texts(env.step(tw.ToolCall("no_such_tool"))[0])[0]
    assert unknown.startswith("Error: there is no tool 'no_such_tool'."), "said in the environment's own words"


def test_one_tool_is_always_left() -> None:
    for seed in range(10):
        env: Any = ToolFaults(Ledger(), missing=1.0, seed=seed)
        env.reset(seed=seed)
        assert len(names(env)) == 1


def test_missing_tools_come_back_and_are_described() -> None:
    env: Any = ToolFaults(Ledger(), missing=1.0, keep=("write",), until=2)
    env.reset(seed=0)
    assert names(env) == ["write"]
    assert texts(env.step(write(1))[0]) == ["wrote 1"]
    assert names(env) == ["write"]
    assert "there is no tool" in env.fork().step(tw.ToolCall("read"))[0].text.split("\n")[0]
    *_, said = texts(env.step(write(2))[0])
    assert said.startswith("These tools can be called from now on: ")
    assert '"name": "read"' in said
    assert names(env) == ["write", "read", "shut"]
    assert texts(env.step(tw.ToolCall("read"))[0]) == ["[1, 2]"]


def test_which_tools_are_missing_depends_on_task_and_seed() -> None:
    def drawn(task: int, seed: int) -> tuple[str, ...]:
        env: Any = ToolFaults(Ledger(), missing=0.5, seed=seed)
        env.reset(seed=task)
        return tuple(names(env))

    assert len({drawn(task, 0) for task in range(30)}) > 3
    assert len({drawn(0, seed) for seed in range(30)}) > 3
    assert drawn(4, 2) == drawn(4, 2)


# -- the same everywhere -----------------------------------------------------------------------------------------


@pytest.mark.slow
@given(seed=st.integers(0, 50), faults=st.integers(0, 50), at=st.integers(0, 8))
def test_the_same_again_in_a_fork_and_in_the_async_form(seed: int, faults: int, at: int) -> None:
    def made() -> Any:
        return ToolFaults(Ledger(), **HARD, lost=0.2, missing=0.2, keep=("write", "shut"), seed=faults)

    whole = episode(made(), seed)
    assert episode(made(), seed) == whole
    env = made()
    env.reset(seed=seed)
    for _ in range(min(at, len(whole) - 2)):
        env.step(env.oracle())
    fork, other = env.fork(), env.fork()
    other.step(write(7))
    other.reset(seed=seed + 1)
    for each in (env, fork):
        rest: list[Any] = []
        while not rest or not any(rest[-1][2:4]):
            rest.append(plain(each.step(each.oracle())))
        assert rest == whole[-len(rest) :]

    async def played() -> list[Any]:
        env = made()
        answers = [plain(await env.areset(seed=seed))]
        while len(answers) == 1 or not any(answers[-1][2:4]):
            answers.append(plain(await env.astep(env.oracle())))
        return answers

    assert asyncio.run(played()) == whole


@pytest.mark.slow
def test_two_processes_agree() -> None:
    code = (
        "from turnwise.tasks.rng import unit_hash; from turnwise.envs.wrappers.tool_faults import ToolFaults; "
        "import turnwise as tw; env = ToolFaults(tw.make('turnwise/Maze-v0'), errors=0.5, seed=3); env.reset(seed=1); "
        "print([env._fate(tw.ToolCall('a', {'i': i})) for i in range(20)])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hashing, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout
        for hashing in ("1", "2")
    ]  # fmt: skip
    assert said[0] == said[1]
    assert "error" in said[0]


def test_what_an_agent_is_told_of_tools_is_what_the_outermost_wrapper_has(tmp_path: Path) -> None:
    """A fault is an episode like any other, never an infrastructure failure."""
    seen: list[list[str]] = []

    class Told(OracleAgent):
        def start(self, context: EpisodeContext) -> Session:
            seen.append([tool.name for tool in context.tools])
            return super().start(context)

    def made(**arguments: Any) -> Any:
        return ToolFaults(Ledger(**arguments), **HARD, missing=1.0, keep=("write", "shut"))

    tw.register("faulty/Ledger-v0", made)
    try:
        summary = run_evaluation(EvalConfig(env="faulty/Ledger-v0", n=12), Told(), store=tmp_path)
    finally:
        registry._entries.pop("faulty/Ledger-v0")
        gymnasium_registry.pop("faulty/Ledger-v0")
    assert (summary.scored, summary.success.value) == (12, 1.0)
    assert seen
    assert all(names == ["write", "shut"] for names in seen)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"timeouts": 1.5}, "timeouts must be .* got 1.5"),
        ({"missing": -0.1}, "missing must be .* got -0.1"),
        ({"errors": float("nan")}, "errors must be .* got nan"),
        ({"timeouts": 0.5, "errors": 0.4, "lost": 0.3}, "sum to 1.2"),
        ({"missing": 0.5, "until": 0}, "until must be at least 1; got 0"),
    ],
)
def test_impossible_faults_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ToolFaults(Ledger(), **arguments)


def test_without_rates_nothing_changes() -> None:
    assert episode(ToolFaults(Ledger())) == episode(TurnWrapper(Ledger()))


def test_arguments_that_are_no_json_can_fail_too() -> None:
    env: Any = ToolFaults(Ledger(), errors=1.0)
    env.reset(seed=0)
    arguments: Any = {1: object(), "a": {2}}
    odd = tw.ToolCall("write", arguments)
    assert "unavailable" in env.step(odd)[0].text
    assert "unknown argument" in env.step(odd)[0].text
