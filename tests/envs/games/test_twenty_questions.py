"""Playing Twenty Questions: rewards, the oracle's turns, and ways to cheat."""

from __future__ import annotations

from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.games.twenty_questions import UNKNOWN, TwentyQuestionsEnv, TwentyQuestionsFull, TwentyQuestionsSubset
from turnwise.tasks.games.objects import attributes


def oracle_turns(env: TwentyQuestionsEnv) -> tuple[int, float]:
    total = 0.0
    while True:
        _, reward, terminated, truncated, info = env.step(env.oracle())
        total += reward
        if terminated or truncated:
            assert info["success"], f"the oracle failed on {env.task}"
            return env.turn, total


def test_the_published_rewards_are_minus_one_a_turn_and_zero_at_the_end() -> None:
    env = TwentyQuestionsSubset()
    env.reset(seed=1)
    secret = env.game.secret
    assert env.step("Is it alive and well in Peru?")[1] == -1.0
    observation, reward, terminated, _, info = env.step(f"is it a {secret}")
    assert (reward, terminated, info["success"]) == (0.0, True, True)
    assert observation.text.startswith("Yes.")


def test_the_oracle_finds_all_158_objects_within_twenty_questions() -> None:
    env, turns = TwentyQuestionsFull(), []
    for seed in range(158):
        env.reset(options={"task": env.tasks().spec(seed)})
        used, total = oracle_turns(env)
        assert total == 1 - used
        turns.append(used)
    assert max(turns) <= 20
    assert sum(turns) / 158 < 9


def test_the_oracle_of_the_subset_needs_four_turns_on_average() -> None:
    env, turns = TwentyQuestionsSubset(), []
    for seed in range(10):
        env.reset(options={"task": env.tasks().spec(seed)})
        turns.append(oracle_turns(env)[0])
    assert (sum(turns) / 10, max(turns)) == (4.0, 5)


@pytest.mark.parametrize("split", list(tw.Split))
def test_the_oracle_solves_every_split_and_level(split: tw.Split) -> None:
    env = TwentyQuestionsEnv()
    for spec in env.tasks().sample(15, split=split):
        env.reset(options={"task": spec})
        oracle_turns(env)


def test_answers_agree_with_the_table() -> None:
    env = TwentyQuestionsFull()
    env.reset(seed=5)
    for name in list(attributes())[:19]:
        expected = "Yes." if env.game.secret in attributes()[name].objects else "No."
        assert env.step(env.ask(name))[0].text == expected
        assert env.game.secret in env.alive, "a true answer never rules the secret out"


def test_what_is_not_understood_costs_its_turn() -> None:
    env = TwentyQuestionsEnv()
    env.reset(seed=2)
    observation, reward, terminated, _, _ = env.step("Once upon a time")
    assert (observation.text, reward, terminated) == (UNKNOWN, -1.0, False)
    assert env.step("")[1] == -1.0
    unlisted = next(name for name in attributes() if name not in env.game.attributes)
    assert env.step(env.ask(unlisted))[0].text == UNKNOWN, "only listed questions are answered"


@pytest.mark.parametrize(
    "env", [TwentyQuestionsEnv(), TwentyQuestionsFull(), TwentyQuestionsSubset()], ids=lambda env: type(env).__name__
)
def test_near_misses_do_not_win(env: TwentyQuestionsEnv) -> None:
    for seed in range(12):
        env.reset(seed=seed)
        for name, actions in env.near_misses().items():
            env.reset(seed=seed)
            assert not callable(actions)
            info: dict[str, Any] = {}
            for action in actions:
                _, _, terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    break
            assert not info.get("success"), f"{name!r} won"


def test_no_object_is_named_before_the_first_question() -> None:
    env = TwentyQuestionsFull()
    for seed in range(158):
        observation, _ = env.reset(options={"task": env.tasks().spec(seed)})
        assert not [name for name in env.secrets() if name in observation.text.lower()]
