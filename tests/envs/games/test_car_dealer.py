"""Selling cars: the oracle, the reward, and ways to cheat the buyer."""

from __future__ import annotations

import pytest

import turnwise as tw
from turnwise.envs.games.car_dealer import CarDealerEnv, dollars
from turnwise.tasks.games.car_dealer import SUCCESS
from turnwise.tasks.games.car_dealer_talk import PERSONAS, QUESTIONS


@pytest.mark.parametrize("split", list(tw.Split))
def test_the_oracle_sells_near_the_best_price_on_every_split_and_level(split: tw.Split) -> None:
    env = CarDealerEnv()
    for spec in env.tasks().sample(50, split=split):
        env.reset(options={"task": spec})
        over, total = False, 0.0
        while not over:
            _, reward, terminated, truncated, info = env.step(env.oracle())
            over, total = terminated or truncated, total + reward
        assert info["success"], spec
        assert SUCCESS * env.game.best <= total <= env.game.best
        assert info["score"].checks == {"sold": True, "price": True}


def test_the_oracle_is_honest() -> None:
    """Its first price may depend only on the messages: the same messages get the same price."""
    import dataclasses

    env = CarDealerEnv()
    for seed in range(20):
        env.reset(seed=seed, options={"level": 3})
        for _ in range(4):
            env.step(env.oracle())
        first = env.oracle()
        buyer = dataclasses.replace(env.game.buyer, budget=env.game.buyer.budget + 1500, patience=0, rounds=9)
        env.game = dataclasses.replace(env.game, buyer=buyer)
        assert env.oracle() == first


def test_a_sale_pays_the_published_reward() -> None:
    env = CarDealerEnv()
    env.reset(seed=3, options={"level": 1})
    car = env.game.cars[0]
    text, reward, terminated, _, info = env.step(f"I offer you the {car.name} for $5,000.")
    assert terminated
    assert reward == 5000 / ((env.game.buyer.budget + car.msrp) / 2)
    assert not info["success"], "a gift is a sale, but no success"
    assert "$5,000" in text.text


def test_a_lost_buyer_costs_what_is_published_and_never_pays() -> None:
    env = CarDealerEnv()
    for seed in range(30):
        env.reset(seed=seed)
        _, reward, terminated, _, info = env.step("Goodbye.")
        assert terminated
        assert reward == env.game.lost <= 0.0
        assert not info["success"]


def test_silence_pays_nothing() -> None:
    env = CarDealerEnv()
    env.reset(seed=1)
    rewards = [env.step("")[1] for _ in range(25)]
    assert rewards == [0.0] * 25
    with pytest.raises(tw.TurnwiseError):
        env.step("")


def test_taking_the_buyers_offer_sells_at_that_price() -> None:
    env = CarDealerEnv()
    env.reset(seed=2, options={"level": 1})
    car = env.game.cars[0]
    offered = env.game.offer(car, 1)
    observation = env.step(f"The {car.name} for {dollars(env.game.worth(car))}.")[0]
    assert dollars(offered) in observation.text
    _, reward, terminated, _, _ = env.step("Deal.")
    assert terminated
    assert reward == env.game.sale(car, offered)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_absurd_price_raises_no_offer(times: int) -> None:
    """A fixed sequence must not sell: it knows neither the cars nor what they are worth."""
    env = CarDealerEnv()
    for seed in range(10):
        env.reset(seed=seed, options={"level": 1})
        for _ in range(times):
            observation, *_ = env.step(f"The {env.game.cars[0].name} costs $999,999.")
            assert "I offer" not in observation.text
        assert env.rounds == 0
        *_, info = env.step("Deal.")
        assert not info.get("success")


def test_a_car_has_to_be_named() -> None:
    env = CarDealerEnv()
    for level in env.tasks().levels:
        env.reset(seed=0, options={"level": level})
        assert "Which car is that for?" in env.step("I offer it for $30,000.")[0].text


def test_patience_runs_out() -> None:
    env = CarDealerEnv()
    env.reset(seed=2, options={"level": 5})
    while not env.step("Nice weather today.")[2]:
        assert env.turn < 9
    assert env.turn == 4, "patience of three, and the fourth bore is one too many"


def test_repeated_questions_annoy() -> None:
    env = CarDealerEnv()
    env.reset(seed=2)
    question = next(iter(QUESTIONS.values()))
    env.step(question)
    before = env.patience
    assert "I already told you" in env.step(question)[0].text
    assert env.patience == before - 1


@pytest.mark.parametrize("persona", PERSONAS)
def test_every_persona_says_everything(persona: str) -> None:
    split = tw.Split.TRAIN if persona in CarDealerEnv.tasks().templates(tw.Split.TRAIN) else tw.Split.TEST_TEMPLATE
    env = CarDealerEnv()
    observation, _ = env.reset(seed=1, options={"template": persona, "split": split, "level": 2})
    assert PERSONAS[persona].hello in observation.text
    assert env.game.buyer.brand not in observation.text.splitlines()[-1], "what is wanted has to be asked"


def test_near_misses_do_not_succeed() -> None:
    env = CarDealerEnv()
    for spec in env.tasks().sample(20):
        env.reset(options={"task": spec})
        for name, actions in env.near_misses().items():
            env.reset(options={"task": spec})
            assert not callable(actions)
            for action in actions:
                _, _, terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    assert not info["success"], f"{name!r} succeeded"
                    break
