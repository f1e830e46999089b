from __future__ import annotations

from dataclasses import replace

import pytest

import turnwise as tw
from turnwise import Action, Outcome
from turnwise.agents.chat import ChatAgent
from turnwise.agents.scripted import FunctionAgent
from turnwise.errors import InfrastructureError, UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.inference.policy import Sampling
from turnwise.inference.transformers_policy import TransformersPolicy
from turnwise.rollouts.options import RunOptions
from turnwise.rollouts.pool import EnvPool
from turnwise.trainers.collect.collect import collect
from turnwise.trainers.collect.demonstrations import DemonstrationConfig, filtered

from ..fakes import returning

OPTIONS = RunOptions(group_size=2, retries=0, backoff=0)
WORDS = "the quick brown fox jumps over lazy dogs"


class Paying(tw.TurnEnv):
    """Pays the number in the action."""

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return WORDS

    def act(self, action: Action) -> tw.Step:
        return tw.success("thanks", reward=float(action.text))


class Listening(Paying):
    """Pays for any action."""

    def act(self, action: Action) -> tw.Step:
        return tw.success("thanks")


def tasks(count: int, env: type[tw.TurnEnv] = Paying) -> list[tw.TaskSpec]:
    return [env.tasks().spec(seed) for seed in range(count)]


@pytest.mark.parametrize("reward", ["nan", "inf", "-inf", "a lot"])
async def test_a_round_that_the_environment_loses_wholly_is_an_error_that_says_why(reward: str) -> None:
    async with EnvPool.of(Paying) as pool:
        with pytest.raises(InfrastructureError, match=r"none of 4 episodes was played to an end: \w+.*resume"):
            await collect(pool, FunctionAgent(lambda _: reward), tasks(2), options=OPTIONS)


async def test_a_round_of_which_one_episode_is_left_is_none() -> None:
    said = iter(["nan", "nan", "1", "nan"])
    async with EnvPool.of(Paying) as pool:
        found = await collect(pool, FunctionAgent(lambda _: next(said)), tasks(2), options=OPTIONS)
    assert (found.metrics()["episodes"], found.metrics()["unscored"]) == (1, 3)


async def test_rewards_too_large_to_square_are_counted_without_a_correlation() -> None:
    said = iter(["1e300", "-1e300", "1e200", "0"])
    async with EnvPool.of(Paying) as pool:
        found = await collect(pool, FunctionAgent(lambda _: next(said)), tasks(2), options=OPTIONS)
    assert "seconds_return_correlation" not in found.metrics()


def speaker(words: str) -> ChatAgent:
    tokenizer = build_tokenizer("word", [f"{words} 1"])
    model = build_model(NanoConfig(size="0.1M", layers=1, hidden=16), tokenizer)
    return ChatAgent(TransformersPolicy(model, tokenizer), tokenizer, sampling=Sampling(max_tokens=2))


async def test_a_model_of_other_words_is_refused_and_one_that_misses_a_word_is_not() -> None:
    async with EnvPool.of(Listening) as pool:
        with pytest.raises(UsageError, match=r"% of the tokens in the first prompts of \S+ are unknown"):
            await collect(pool, speaker("guess a letter in six tries"), tasks(1, Listening), options=OPTIONS)
        found = await collect(pool, speaker(WORDS.replace(" lazy", "")), tasks(1, Listening), options=OPTIONS)
    assert found.metrics()["episodes"] == 2


def test_demonstrations_that_were_all_lost_say_why() -> None:
    lost = [replace(returning(1.0, outcome=Outcome.INFRA_FAILED), error="the world is broken")]
    with pytest.raises(UsageError, match=r"0 were played to an end .*the world is broken"):
        filtered(lost, DemonstrationConfig())
