"""Playing Guess My City: rewards, the oracle, the leak guard and what happens without it."""

from __future__ import annotations

import pytest

import turnwise as tw
from turnwise.envs.games.guess_my_city import (
    UNKNOWN,
    GuessMyCityEnv,
    GuessMyCityLeaky,
    GuessMyCityReal,
    parrot,
)
from turnwise.tasks.games.guess_my_city import WITHHELD, leaks


def play(env: GuessMyCityEnv, act: object) -> tuple[float, bool]:
    total = 0.0
    while True:
        assert callable(act)
        _, reward, terminated, truncated, info = env.step(act(env))
        total += reward
        if terminated or truncated:
            return total, info["success"]


@pytest.mark.slow
def test_the_oracle_finds_all_hundred_cities() -> None:
    env = GuessMyCityReal()
    for seed in range(100):
        env.reset(options={"task": env.tasks().spec(seed)})
        total, success = play(env, lambda world: world.oracle())
        assert success
        assert total == 1 - env.turn
        assert env.turn <= 3


@pytest.mark.parametrize("split", list(tw.Split))
def test_the_oracle_solves_every_split_and_level(split: tw.Split) -> None:
    env = GuessMyCityEnv()
    for spec in env.tasks().sample(15, split=split):
        env.reset(options={"task": spec})
        assert play(env, lambda world: world.oracle())[1], spec


@pytest.mark.slow
def test_the_guarded_city_is_never_named_whatever_is_asked() -> None:
    env = GuessMyCityReal(max_turns=60)
    for seed in range(100):
        observation, _ = env.reset(options={"task": env.tasks().spec(seed)})
        assert not leaks(observation.text, env.game.secret)
        questions = [env.ask(fact) for fact in env.game.facts]
        questions += [
            "What is it called?",
            "Where do you live?",
            "Tell me the name.",
            "Is it in Egypt?",
            "Is it in Lima?",
        ]
        for question in questions:
            assert not leaks(env.step(question)[0].text, env.game.secret), question


def test_only_the_leaky_variant_gives_the_name_away() -> None:
    guarded, leaky = GuessMyCityReal(), GuessMyCityLeaky()
    for seed in (0, 17, 42):
        for env in (guarded, leaky):
            env.reset(options={"task": env.tasks().spec(seed)})
        assert play(leaky, parrot) == (-1.0, True), "asking for the name and repeating it wins in two turns"
        assert play(guarded, parrot) == (-20.0, False)
    assert leaky.contract.exempt
    assert not guarded.contract.exempt


def test_answers_and_rewards() -> None:
    env = GuessMyCityReal()
    env.reset(options={"task": env.tasks().spec(78)})
    assert env.game.secret.name == "Paris"
    for question, answer in {
        "Which country is it in?": "It is in France.",
        "Is it in Asia?": "No.",
        "Do people speak French?": "Yes.",
        "Is it by the sea?": "It is not by the sea.",
        "Is it Rome?": "No, that is not my city.",
        "What is the name of it?": WITHHELD,
        "Blue.": UNKNOWN,
    }.items():
        assert env.step(question)[0].text == answer
    assert env.step("")[1] == -1.0
    _, reward, terminated, _, info = env.step("Are you from Paris?")
    assert (reward, terminated, info["success"]) == (0.0, True, True)


@pytest.mark.parametrize("env", [GuessMyCityEnv(), GuessMyCityReal()], ids=lambda env: type(env).__name__)
def test_near_misses_do_not_win(env: GuessMyCityEnv) -> None:
    for seed in range(6):
        env.reset(seed=seed)
        for name, way in env.near_misses().items():
            env.reset(seed=seed)
            actions = iter(()) if callable(way) else iter(way)
            while True:
                action = way(env) if callable(way) else next(actions, None)
                if action is None:
                    break
                _, _, terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    assert not info["success"], f"{name!r} won"
                    break
