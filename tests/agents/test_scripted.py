"""Agents without a model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import turnwise
from turnwise import Action, Observation, ToolCall
from turnwise.agents.scripted import FunctionAgent, MixedAgent, NullAgent, OracleAgent, RandomAgent
from turnwise.envs.messages import message
from turnwise.errors import UsageError

from .fakes import context


async def says(agent: Any, *observations: str, **kwargs: Any) -> list[Action]:
    session = agent.start(context(**kwargs))
    return [(await session.act(Observation.of(text))).action for text in observations]


async def test_a_function_gets_the_text_and_may_answer_in_any_form() -> None:
    assert await says(FunctionAgent(str.upper), "go", "on") == [Action("GO"), Action("ON")]
    assert await says(FunctionAgent(lambda text: ToolCall("look")), "x") == [Action(tool_calls=(ToolCall("look"),))]
    assert await says(FunctionAgent(lambda text: Action("y")), "x") == [Action("y")]


async def test_a_function_that_returns_no_action_is_named() -> None:
    def forgetful(text: str) -> None:
        pass

    with pytest.raises(
        TypeError, match=r"forgetful\(\) is wrong: .* got a NoneType, None \(at .*test_scripted.py:\d+ in"
    ):
        await says(FunctionAgent(forgetful), "x")  # type: ignore[arg-type]


async def test_a_function_that_asks_for_an_observation_gets_it() -> None:
    def count(observation: Observation) -> str:
        return str(len(observation.messages))

    async def later(text: str) -> str:
        return f"{text} later"

    def dotted(observation: turnwise.Observation) -> str:
        return type(observation).__name__

    assert await says(FunctionAgent(count), "x") == [Action("1")]
    assert await says(FunctionAgent(dotted), "x") == [Action("Observation")]
    assert await says(FunctionAgent(later), "x") == [Action("x later")]


async def test_the_time_of_a_function_is_the_policys() -> None:
    def slow(text: str) -> str:
        time.sleep(0.02)
        return text

    async def waiting(text: str) -> str:
        await asyncio.sleep(0.02)
        return text

    for function in (slow, waiting):
        session = FunctionAgent(function).start(context())
        assert (await session.act(Observation.of("x"))).seconds >= 0.019


async def test_a_factory_gives_each_episode_its_own_state() -> None:
    def counting(_: Any) -> Callable[[str], str]:
        seen: list[str] = []

        def act(text: str) -> str:
            seen.append(text)
            return str(len(seen))

        return act

    agent = FunctionAgent(factory=counting)
    one, two = agent.start(context()), agent.start(context())
    answers = [(await session.act(Observation.of("x"))).action.text for session in (one, two, one)]
    assert answers == ["1", "1", "2"], "state leaked from one session into another"


def test_a_function_agent_needs_exactly_one_way_of_making_functions() -> None:
    with pytest.raises(UsageError, match="either a function, or factory="):
        FunctionAgent()
    with pytest.raises(UsageError, match="either a function, or factory="):
        FunctionAgent(str.upper, factory=lambda _: str.upper)
    with pytest.raises(UsageError, match="is not callable"):
        FunctionAgent(factory=lambda _: "go").start(context())  # type: ignore[arg-type, return-value]


async def test_oracle_random_and_silence() -> None:
    assert await says(OracleAgent(), "x", "y") == [Action("best")] * 2
    assert await says(NullAgent(), "x") == [Action("")]
    drawn = await says(RandomAgent(), *"abcd")
    assert len({action.text for action in drawn}) == 4, "every turn draws anew"
    assert await says(RandomAgent(), *"abcd") == drawn, "the same episode draws the same"
    assert await says(RandomAgent(), *"abcd", seed=1) != drawn


async def test_skill_is_the_share_of_turns_that_the_oracle_plays() -> None:
    turns = [""] * 400
    for skill in (0.0, 0.35, 1.0):
        share = sum(action.text == "best" for action in await says(MixedAgent([skill]), *turns)) / len(turns)
        assert share == pytest.approx(skill, abs=0.06)


async def test_an_episode_has_one_skill_and_the_mixture_has_many() -> None:
    agent = MixedAgent([0.0, 1.0], weights=[3, 1])
    episodes = [{action.text == "best" for action in await says(agent, *"abcdef", seed=seed)} for seed in range(200)]
    assert all(len(kinds) == 1 for kinds in episodes), "skill is drawn per episode, not per turn"
    assert sum(True in kinds for kinds in episodes) / 200 == pytest.approx(0.25, abs=0.09)


async def test_a_habit_is_the_same_action_whenever_the_same_message_is_read() -> None:
    texts = [f"cell {number}" for number in range(200)]
    played = [await says(MixedAgent([1.0], habits=0.25), *texts, seed=seed) for seed in range(2)]
    assert played[0] == played[1], "neither the episode nor its luck changes a habit"
    wrong = [action.text != "best" for action in played[0]]
    assert sum(wrong) / 200 == pytest.approx(0.25, abs=0.09)
    assert len({action.text for action in played[0]}) > 20, "a message has its own habit"
    fewer = await says(MixedAgent([1.0], habits=0.1), *texts)
    assert all(before for before, now in zip(wrong, fewer, strict=True) if now.text != "best"), "more habits keep these"


async def test_a_habit_belongs_to_the_last_message_and_takes_no_luck_from_other_turns() -> None:
    agent = MixedAgent([1.0], habits=0.5)
    for text in map(str, range(20)):
        with_rules = Observation((message("system", "Rules."), message("user", text)))
        first = await agent.start(context()).act(with_rules)
        assert [first.action] == await says(agent, text)
    turns = [str(number) for number in range(60)]
    plain, habitual = [await says(MixedAgent([0.5], habits=habits), *turns) for habits in (0.0, 0.5)]
    assert all(b == a for a, b in zip(plain, habitual, strict=True) if a.text != "best"), "random turns stay"
    assert plain != habitual


@pytest.mark.parametrize("habits", [-0.1, 1.5])
def test_habits_that_are_no_share_are_refused(habits: float) -> None:
    with pytest.raises(UsageError, match=r"habits .* must be a share in \[0, 1\]"):
        MixedAgent([1.0], habits=habits)


@pytest.mark.parametrize("arguments", [([],), ([1.5],), ([-0.1],), ([0.5], [1, 2]), ([0.5], [0]), ([0.5], [-1])])
def test_a_mixture_that_is_none_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match=r"skills|weights"):
        MixedAgent(*arguments)
