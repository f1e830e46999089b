"""``ToolEnv``: calls are run in order, errors are observations, the world is judged."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.envs import toolenv
from turnwise.errors import ContractError, EnvironmentFailedError


class Till(tw.ToolEnv):
    """Put exactly ten coins into the till."""

    max_turns = 6
    unparsed_reward = -0.5

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        self.coins = 0
        return "Ten coins, please."

    @tw.tool
    def put(self, coins: int, copy: bool = False) -> dict[str, int]:
        """Put coins in."""
        if coins < 0:
            raise tw.ToolError("coins stay in the till")
        self.coins += coins
        return {"coins": self.coins}

    @tw.tool
    def crash(self) -> str:
        """Fail."""
        raise ZeroDivisionError("by zero")

    @tw.tool
    def unplug(self) -> str:
        """Break the infrastructure."""
        raise EnvironmentFailedError("the till is unplugged")

    @tw.tool(ends=True)
    def close_till(self, force: bool = False) -> str:
        """Close it."""
        if self.coins > 100 and not force:
            raise tw.ToolError("too full")
        return "Closed."

    def judge(self) -> Any:
        return tw.Score(self.coins == 10, {"enough": self.coins >= 10})


class AsyncTill(Till):
    """One tool is a coroutine."""

    @tw.tool
    async def put(self, coins: int, copy: bool = False) -> dict[str, int]:  # type: ignore[override]
        """Put coins in, slowly."""
        await asyncio.sleep(0)
        return Till.put(self, coins, copy)


class AsyncJudge(Till):
    """Only the judge is a coroutine."""

    async def judge(self) -> tw.Score:
        await asyncio.sleep(0)
        return tw.Score(self.coins == 10)


def put(coins: Any, **more: Any) -> tw.ToolCall:
    return tw.ToolCall("put", {"coins": coins, **more})


CLOSE = tw.ToolCall("close_till")


def started(cls: type[Till] = Till) -> Till:
    env = cls()
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("cls", [Till, AsyncTill, AsyncJudge])
def test_sync_and_async_tools_work_in_both_forms(cls: type[Till]) -> None:
    env = started(cls)
    assert env.step(put(10))[0].text == '{"coins": 10}'
    _, reward, terminated, _, info = env.step(CLOSE)
    assert (reward, terminated, info["success"]) == (1.0, True, True)

    async def play() -> Any:
        other = cls()
        await other.areset(seed=0)
        await other.astep(put(9))
        return await other.astep(CLOSE)

    _, reward, terminated, _, info = asyncio.run(play())
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_several_calls_are_answered_one_by_one_with_their_ids() -> None:
    env = started()
    calls = (tw.ToolCall("put", {"coins": 1}, "a"), tw.ToolCall("nope", {}, "b"), tw.ToolCall("put", {"coins": 2}, "c"))
    observation, reward, _, _, info = env.step(tw.Action("", calls))
    assert [(m.role, m.name, m.tool_call_id) for m in observation.messages] == [
        ("tool", "put", "a"), ("tool", "nope", "b"), ("tool", "put", "c"),
    ]  # fmt: skip
    assert [m.text for m in observation.messages][::2] == ['{"coins": 1}', '{"coins": 3}']
    assert info["tool_errors"] == ["nope"]
    assert reward == 0.0


def test_nothing_is_called_after_a_call_that_ends_the_episode() -> None:
    env = started()
    observation, _, terminated, _, _ = env.step(tw.Action("", (put(10), CLOSE, put(1))))
    assert terminated
    assert len(observation.messages) == 2
    assert env.coins == 10


def test_an_ending_call_that_fails_does_not_end_the_episode() -> None:
    env = started()
    env.step(put(200))
    observation, _, terminated, _, info = env.step(CLOSE)
    assert not terminated
    assert observation.text == "Error: too full"
    assert info["tool_errors"] == ["close_till"]
    assert env.step(tw.ToolCall("close_till", {"force": True}))[2]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (tw.ToolCall("pot", {}), "no tool 'pot'. You have: put, crash, unplug, close_till."),
        (put("many"), "argument 'coins'"),
        (put(1, coin=2), "unknown argument 'coin'"),
        (tw.ToolCall("put"), "argument 'coins' is missing"),
        (put(-1), "Error: coins stay in the till"),
        (tw.ToolCall("__init__"), "no tool '__init__'"),
        (tw.ToolCall("reset"), "no tool 'reset'"),
        (tw.ToolCall("x" * 10**6), "no tool 'xxx"),
    ],
)
def test_an_error_is_an_observation(call: tw.ToolCall, words: str) -> None:
    env = started()
    observation, reward, terminated, truncated, _ = env.step(call)
    assert words in observation.text
    assert (reward, terminated, truncated, env.coins) == (0.0, False, False, 0)
    assert len(observation.text) < 500
    assert len(observation.messages[0].name or "") <= 60


def test_what_a_tool_raises_by_mistake_is_not_an_observation() -> None:
    with pytest.raises(ZeroDivisionError, match="by zero"):
        started().step(tw.ToolCall("crash"))


@pytest.mark.parametrize("judged", [True, False, np.bool_(True), 1])
def test_a_judge_may_answer_with_a_truth_value(judged: Any) -> None:
    class Plain(Till):
        def judge(self) -> Any:
            return judged

    _, reward, terminated, _, info = started(Plain).step(CLOSE)
    assert (reward, terminated, info["success"]) == (float(judged), True, bool(judged))
    assert type(info["success"]) is bool, "the records are JSON, which has no truth value of NumPy's"


@pytest.mark.parametrize("judged", [None, "yes", 0.5, {"success": True}])
def test_what_is_not_a_judgment_names_the_judges_line(judged: Any) -> None:
    class Odd(Till):
        def judge(self) -> Any:
            return judged

    with pytest.raises(ContractError, match=r"Odd.judge\(\) returned .*; return tw.Score.*test_toolenv.py:\d+"):
        started(Odd).step(CLOSE)


def test_a_reward_that_is_not_a_number_names_its_line() -> None:
    class Rich(Till):
        def reward(self, score: tw.Score) -> Any:
            return None

    with pytest.raises(ContractError, match=r"Rich.reward\(\) returned nothing; .*test_toolenv.py:\d+"):
        started(Rich).step(CLOSE)


def test_without_a_judge_no_end_can_be_a_success() -> None:
    class Unjudged(Till):
        judge = tw.TurnEnv.judge

    with pytest.raises(ContractError, match=r"Unjudged has no judge\(\); write one .*test_toolenv.py:\d+"):
        started(Unjudged).step(CLOSE)


@pytest.mark.parametrize("name", [None, 3, ["put"], {"put": 1}])
def test_even_a_name_of_another_type_is_answered(name: Any) -> None:
    assert "there is no tool" in started().step(tw.ToolCall(name))[0].text


@given(
    st.lists(
        st.builds(
            tw.ToolCall,
            st.sampled_from(["put", "close", ""]) | st.text(max_size=8),
            st.dictionaries(
                st.sampled_from(["coins", "copy", "x"]),
                st.integers() | st.text(max_size=20) | st.none() | st.floats() | st.lists(st.booleans()),
            ),
        ),
        max_size=5,
    )
)
def test_no_call_escapes_as_an_exception(calls: list[tw.ToolCall]) -> None:
    env = started()
    observation, *_ = env.step(tw.Action("", tuple(calls)))
    assert observation.text
    assert len(observation.messages) == max(1, len(calls))


def test_broken_machinery_is_not_the_agents_error() -> None:
    with pytest.raises(EnvironmentFailedError, match="unplugged"):
        started().step(tw.ToolCall("unplug"))


def test_text_without_a_call_is_told_which_tools_there_are() -> None:
    observation, reward, _, _, info = started().step("ten coins")
    assert observation.text == "Call a tool. You have: put, crash, unplug, close_till."
    assert (reward, info["unparsed"]) == (-0.5, True)


def test_one_message_calls_only_so_many_tools() -> None:
    env = started()
    observation, *_ = env.step(tw.Action("", (put(1),) * 1000))
    assert env.coins == Till.max_calls == 16
    assert len(observation.messages) == 17
    assert "984 were not called" in observation.messages[-1].text


def test_the_calls_of_one_message_have_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    env, clock = started(), iter(range(0, 1000, 25))
    monkeypatch.setattr(toolenv, "_now", lambda: float(next(clock)))
    observation, *_ = env.step(tw.Action("", (put(1),) * 5))
    assert env.coins == 3, "after 75 s no call may start: a run waits 120 s for a step"
    assert "have 60 seconds; 2 were not called" in observation.messages[-1].text


def test_the_turn_limit_judges_the_world() -> None:
    env = Till(max_turns=1)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(put(10))
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True), "success is paid at any end"


def test_the_reward_may_come_from_the_checks() -> None:
    class Lenient(Till):
        def reward(self, score: tw.Score) -> float:
            return score.fraction

    env = started(Lenient)
    env.step(put(11))
    _, reward, _, _, info = env.step(CLOSE)
    assert (reward, info["success"]) == (1.0, False)


def test_tools_are_bound_and_described() -> None:
    env = started()
    assert [tool.name for tool in env.tools] == ["put", "crash", "unplug", "close_till"]
    assert env.tools[0].function(coins=3) == {"coins": 3}
    assert env.coins == 3
    json.dumps([tool.to_json() for tool in env.tools])


@given(st.integers(0, 1000))
def test_random_actions_are_calls_that_fit(seed: int) -> None:
    env = Till()
    call: Any = env.random_action(tw.Rng(seed))
    next(tool for tool in env.tools if tool.name == call.name).validate(call.arguments)


def test_a_tool_may_not_replace_a_part_of_the_environment() -> None:
    with pytest.raises(ContractError, match=r"would replace the environment's own 'close'.*@tool\(name='close'\)"):

        class Shop(tw.ToolEnv):
            @tw.tool
            def close(self) -> str:  # type: ignore[override]
                """Close the shop."""
                return ""


@pytest.mark.parametrize("error", [ConnectionError("gone"), MemoryError()])
def test_what_no_agent_can_mend_is_not_an_observation(error: Exception) -> None:
    class Broken(tw.ToolEnv):
        """A tool whose infrastructure fails."""

        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return "Go."

        @tw.tool
        def fetch(self) -> str:
            """Fetch it."""
            raise error

    env = Broken()
    env.reset(seed=0)
    with pytest.raises(type(error)):
        env.step(tw.ToolCall("fetch"))
