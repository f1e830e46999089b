"""The suite's score through our reset, step and reward: its possible answers, silence, and everything in between."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

import turnwise as tw
from turnwise.envs.bfcl.env import BfclEnv
from turnwise.envs.sampling import random_arguments

from ...shifts import core_sample, sampled

IDS = {
    category: f"turnwise/BFCLMultiTurn{name}-v0"
    for category, name in {
        "base": "Base",
        "miss_func": "MissFunc",
        "miss_param": "MissParam",
        "long_context": "LongContext",
    }.items()
}
Plan = list[list[list[tw.ToolCall]]]
"""Calls by turn of the user and by message."""
unique = itertools.count()


def made(category: str) -> BfclEnv:
    return cast(BfclEnv, tw.make(IDS[category]))


def finish(env: BfclEnv, say: Callable[[], Any]) -> float:
    """Play to the end; the sum of rewards."""
    total = 0.0
    for _ in range(env.max_turns):
        _, reward, terminated, truncated, _ = env.step(say())
        total += reward
        if terminated or truncated:
            return total
    raise AssertionError("the episode has no end")


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(sampled(range(200), 30, key="bfcl answers"), id="some"),
        pytest.param(range(200), id="all", marks=pytest.mark.shift),
    ],
)
@pytest.mark.parametrize("category", IDS)
def test_every_possible_answer_is_worth_one_and_silence_nothing(category: str, seeds: Sequence[int]) -> None:
    env, solved, silent = made(category), 0.0, 0.0
    for seed in seeds:
        env.reset(seed=seed)
        assert env.played.id == f"multi_turn_{category}_{seed}"
        solved += finish(env, env.oracle)
        env.reset(seed=seed)
        silent += finish(env, lambda: "")
    assert (solved, silent) == (len(seeds), 0), "the suite's own program finds all answers right, and no silence"


def suites_verdict(env: BfclEnv, plan: Plan) -> bool:
    """Return the verdict of the suite's own program on the same calls, under an unused name."""
    suite = "bfcl_eval.eval_checker.multi_turn_eval"
    checker = importlib.import_module(f"{suite}.multi_turn_checker")
    utils = importlib.import_module(f"{suite}.multi_turn_utils")

    def source(call: tw.ToolCall) -> str:
        return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"

    task, before = env.played, set(vars(utils))
    entry = {"id": task.id, "initial_config": task.config, "involved_classes": list(task.classes)}
    said = [[[source(call) for call in calls] for calls in turn] for turn in plan]
    answer = [[source(tw.ToolCall(call.function, call.arguments)) for call in turn.answer] for turn in task.turns]
    verdict = checker.multi_turn_checker(said, answer, entry, "", f"turnwise_{next(unique)}")
    for name in set(vars(utils)) - before:
        del vars(utils)[name]
    return bool(verdict["valid"])


def our_verdict(env: BfclEnv, plan: Plan) -> bool:
    reward = 0.0
    for turn in plan:
        for calls in turn:
            env.step(tw.Action(tool_calls=tuple(calls)))
        reward += env.step("Done.")[1]
    return reward == 1.0


def dropped(plan: Plan, env: BfclEnv, rng: tw.Rng) -> None:
    turn = rng.pick([turn for turn in plan if turn])
    turn.pop(rng.randrange(len(turn)))


def doubled(plan: Plan, env: BfclEnv, rng: tw.Rng) -> None:
    turn = rng.pick([turn for turn in plan if turn])
    turn.insert(0, turn[rng.randrange(len(turn))])


def postponed(plan: Plan, env: BfclEnv, rng: tw.Rng) -> None:
    if len(plan) > 1:
        at = rng.randrange(len(plan) - 1)
        plan[at + 1][:0] = plan[at][-1:]
        del plan[at][-1:]


def disordered(plan: Plan, env: BfclEnv, rng: tw.Rng) -> None:
    rng.shuffle(rng.pick(plan))


def disturbed(plan: Plan, env: BfclEnv, rng: tw.Rng) -> None:
    tool, turn = rng.pick(env.tools), rng.pick(plan)
    turn.insert(rng.randrange(len(turn) + 1), [tw.ToolCall(tool.name, random_arguments(tool.parameters, rng))])


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", core_sample([dropped, doubled, postponed, disordered, disturbed], 2, key="almost right")
)
@pytest.mark.parametrize("category", IDS)
def test_what_is_almost_right_is_judged_as_the_suite_judges_it(category: str, change: Any) -> None:
    env, verdicts = made(category), []
    for seed in range(0, 200, 5):
        env.reset(seed=seed)
        plan = [[[tw.ToolCall(call.function, call.arguments)] for call in turn.answer] for turn in env.played.turns]
        change(plan, env, tw.Rng(change.__name__, category, seed))
        if max(map(len, plan)) > 20:  # the suite's other program, which talks to the model, would have given up
            plan = [
                [[call for calls in turn[i : i + 3] for call in calls] for i in range(0, len(turn), 3)] for turn in plan
            ]
        ours = our_verdict(env, plan)
        assert ours == suites_verdict(env, plan), f"{env.played.id} after calls were {change.__name__}: {plan}"
        verdicts.append(ours)
    assert change is dropped or any(verdicts), "a change that is always wrong shows little"
    assert not all(verdicts)
