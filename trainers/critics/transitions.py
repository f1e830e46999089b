"""Transitions: the turns of an episode for a critic over utterances, with the ids that the policy read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ...errors import ContractError, UnscoredEpisodeError, UsageError
from ...rollouts.episode import Episode, Turn
from ..learning.advantages import bootstraps, final_prompt, turn_returns
from ..learning.rows import check_logprobs, refuse_chat_api

NOBODY = -1
"""Version of an action that no policy sampled, as in a demonstration."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One turn: its state, the utterance, its reward, and the next state.

    Args:
        state_ids: the prompt, exactly as the policy read it.
        action_ids: the utterance, exactly as it was sampled, stop id included.
        logprobs: log-probability of each action id under the behavior policy.
        reward: the environment's reward for the turn.
        next_ids: the prompt of the next turn, or the one that would have followed where a limit cut the episode off;
            empty if the task ended here.
        done: whether the task ended here, so that nothing follows; a limit does not end a task (trap 14).
        mc_return: the discounted sum of the episode's rewards from this turn on, γ per turn; rewards after a limit
            count as 0.
        version: the policy version that sampled the first action id; −1 for a demonstration.
        episode_id: id of the episode.
        turn: index of the turn in the episode.
    """

    state_ids: tuple[int, ...]
    action_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float
    next_ids: tuple[int, ...]
    done: bool
    mc_return: float
    version: int
    episode_id: str
    turn: int


def transitions(episode: Episode, gamma: float) -> list[Transition]:
    """Return the transitions of an episode, in order.

    Args:
        episode: episode played to an end by a policy that records token ids.
        gamma: discount per turn.

    Raises:
        UnscoredEpisodeError: the episode was not played to an end.
        ContractError: a turn has no token ids, or not one log-probability per action id, or a limit cut the episode
            off and the prompt that would follow is missing.
        UsageError: a reward is not finite.
    """
    if not episode.trainable:
        raise UnscoredEpisodeError(
            f"episode {episode.episode_id} is {episode.outcome} ({episode.error}): nothing can be learned from it"
        )
    for index, turn in enumerate(episode.turns):
        _check(episode, index, turn)
    if not episode.turns:
        return []
    cut_off = bootstraps(episode)
    following = [turn.prompt_ids for turn in episode.turns[1:]] + [final_prompt(episode) if cut_off else ()]
    returns_U = turn_returns(torch.tensor([turn.reward for turn in episode.turns], dtype=torch.float64), gamma)
    last = len(episode.turns) - 1
    return [
        Transition(
            state_ids=turn.prompt_ids,
            action_ids=turn.action_ids,
            logprobs=turn.logprobs,
            reward=turn.reward,
            next_ids=following[index],
            done=index == last and not cut_off,
            mc_return=float(returns_U[index]),
            version=turn.versions[0] if turn.versions else NOBODY,
            episode_id=episode.episode_id,
            turn=index,
        )
        for index, turn in enumerate(episode.turns)
    ]


def _check(episode: Episode, index: int, turn: Turn) -> None:
    refuse_chat_api(episode, turn)
    where = f"turn {index} of episode {episode.episode_id}"
    if not turn.prompt_ids or not turn.action_ids:
        raise ContractError(
            f"{where} has {len(turn.prompt_ids)} prompt ids and {len(turn.action_ids)} action ids: a critic over "
            "utterances needs both; scripted agents leave none, so encode their episodes first"
        )
    if len(turn.logprobs) != len(turn.action_ids):
        raise ContractError(
            f"{where} has {len(turn.action_ids)} action ids and {len(turn.logprobs)} log-probabilities: "
            "one is needed per token"
        )
    check_logprobs(episode, index, turn)
    if not math.isfinite(turn.reward):
        raise UsageError(
            f"{where} of {episode.env_id} has a reward of {turn.reward}: nothing can be learned from it; fix the "
            "environment (turnwise certify names such faults), or leave the episode out"
        )
