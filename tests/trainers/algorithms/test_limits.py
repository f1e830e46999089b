"""A game whose dithering pays nothing: every learner must take running out of turns for the failure that it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import turnwise as tw
from turnwise import Episode, Outcome
from turnwise.agents.agent import Decision, EpisodeContext
from turnwise.envs.messages import Observation
from turnwise.rollouts.episode import Lookahead
from turnwise.rollouts.runner import run
from turnwise.trainers.algorithms.algorithm import Algorithm
from turnwise.trainers.algorithms.grpo import GRPO
from turnwise.trainers.algorithms.ppo import PPO
from turnwise.trainers.algorithms.rloo import RLOO
from turnwise.trainers.algorithms.vine_ppo import VinePPO
from turnwise.trainers.critics.token_steps import TokenSteps
from turnwise.trainers.critics.transitions import transitions
from turnwise.trainers.learning.batch import Batch
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.learning.rows import Rows

from ...rollouts.fakes import FakeAgent

TURNS, V = 3, 0.5


class Quiz(tw.TurnEnv):
    """One answer is right; ``wait`` puts it off, and earns nothing."""

    max_turns = TURNS

    def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
        return "Answer now, or wait."

    def act(self, action: tw.Action) -> Any:
        said = action.choice(["wait", "right", "wrong"])
        if said == "wait":
            return tw.running("You wait.")
        return tw.success("Right.") if said == "right" else tw.failure("Wrong.")


class Endless(Quiz):
    """The same without an end of its own."""

    max_turns = 50


PLAYS = {"wins": ["wait", "wait", "right"], "fails": ["wait", "wait", "wrong"], "dithers": ["wait"] * TURNS}


async def say(words: Sequence[str], context: EpisodeContext, turn: int, observation: Observation) -> Decision:
    return Decision(tw.Action(words[turn - 1]))


def episodes(kind: type[Quiz], **env_kwargs: Any) -> dict[str, Episode]:
    """Play the game in the three ways, and give each turn tokens as a policy would record them."""
    played = {}
    for name, words in PLAYS.items():
        agent = FakeAgent(partial(say, words))
        (episode,) = run(kind, agent, [tw.TaskSpec(kind.__name__)], env_kwargs=env_kwargs)
        turns: list[tw.Turn] = []
        prompt: tuple[int, ...] = (1,)
        for turn in episode.turns:
            turns.append(replace(turn, prompt_ids=prompt, action_ids=(2,), logprobs=(-1.0,), versions=(0,)))
            prompt = (*prompt, 2, 1)
        ahead = tuple(Lookahead(number, (V,), Outcome.COMPLETED) for number in range(len(turns)))
        after = prompt if episode.outcome is Outcome.TRUNCATED else ()
        played[name] = replace(
            episode, episode_id=name, group_id="g", turns=tuple(turns), lookaheads=ahead, final_prompt_ids=after
        )
    return played


class Half:
    """A critic that takes every state for worth ``V``, also one in which a limit stops an episode."""

    def values(self, rows: Rows) -> Tensor:
        return torch.where(rows.mask, V, 0.0)

    def final(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        return torch.full((len(prompts),), V)

    def fit(self, rows: Rows, target_T: Tensor) -> Mapping[str, float]:
        raise AssertionError("credit teaches nothing")

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        del state


LEARNERS: dict[str, Algorithm] = {
    "LOOP": RLOO(),
    "GRPO": GRPO(),
    "PPO": PPO(whiten=False),
    "PPO over tokens": PPO(whiten=False, level="token"),
    "VinePPO": VinePPO(whiten=False),
}


def credit(learner: Algorithm, played: Mapping[str, Episode]) -> dict[str, list[float]]:
    """The advantage of each sampled token, by episode."""
    batch = Batch.of(grouped(list(played.values())))
    rows = learner.credit(batch, Half()).rows
    advantages = rows.advantage[rows.mask].reshape(len(batch.episodes), TURNS).tolist()
    return {episode.episode_id: each for episode, each in zip(batch.episodes, advantages, strict=True)}


def done(episode: Episode) -> list[bool]:
    return [step.done for step in transitions(episode, 1.0)]


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_running_out_of_turns_is_a_failure(learner: Algorithm) -> None:
    played = episodes(Quiz)
    assert [each.outcome for each in played.values()] == [Outcome.COMPLETED] * 3
    advantages = credit(learner, played)
    assert advantages["dithers"] == pytest.approx(advantages["fails"]), (
        "putting the answer off is worth as little as a wrong one"
    )
    assert advantages["dithers"][-1] < 0 < advantages["wins"][-1]


def test_running_out_of_turns_is_a_failure_for_critics_of_utterances_and_of_tokens() -> None:
    """ArCHer's and ILQL's targets: nothing follows the last turn."""
    played = episodes(Quiz)
    assert done(played["dithers"]) == done(played["fails"]) == [False, False, True]
    batch = Batch.of(grouped(list(played.values())))
    steps = TokenSteps.of(batch.episodes, batch.rows, gamma=1.0)
    assert steps.discount_U.reshape(3, TURNS)[:, -1].tolist() == [0.0, 0.0, 0.0], "no value after the end"
    assert not steps.prompts


@pytest.mark.parametrize("learner", [LEARNERS["PPO"], LEARNERS["PPO over tokens"]], ids=["PPO", "PPO over tokens"])
def test_a_limit_of_the_run_leaves_a_state_with_a_value(learner: Algorithm) -> None:
    played = episodes(Endless, turn_limit=TURNS)
    assert played["dithers"].outcome is Outcome.TRUNCATED
    advantages = credit(learner, played)
    assert advantages["dithers"] == pytest.approx([0.0] * TURNS, abs=1e-6), "no state is worth less than another"
    assert advantages["fails"][-1] == pytest.approx(-V)
    assert done(played["dithers"]) == [False] * TURNS


@pytest.mark.parametrize("name", ["LOOP", "GRPO", "VinePPO"])
def test_without_a_critic_of_the_last_state_the_return_so_far_counts(name: str) -> None:
    advantages = credit(LEARNERS[name], episodes(Endless, turn_limit=TURNS))
    assert advantages["dithers"] == pytest.approx(advantages["fails"])
