"""Transitions: the turns of an episode for a critic over utterances, with the ids that the policy read.

A turn without sampled tokens is not a decision. As in ``learning/gae.py``, its reward belongs to the decision before
it, one γ later, and the next state is that of the next decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ...errors import ContractError, UnscoredEpisodeError, UsageError
from ...rollouts.episode import Episode, Turn
from ...rollouts.rows import check_logprobs, refuse_chat_api
from ..learning.advantages import bootstraps, final_prompt, turn_returns
from ..learning.batch import refuse_mixed_seats

NOBODY = -1
"""Version of an action that no policy sampled, as in a demonstration."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One decision: its state, the utterance, its reward, and the next state.

    Args:
        state_ids: the prompt, exactly as the policy read it.
        action_ids: the utterance, exactly as it was sampled, stop id included.
        logprobs: log-probability of each action id under the behavior policy.
        reward: the environment's reward for the turn, plus the discounted rewards of turns without tokens after it.
        next_ids: the prompt of the next turn, or the one that would have followed where a limit cut the episode off;
            empty if the task ended here.
        done: whether the task ended here, so that nothing follows; a limit does not end a task (trap 14).
        mc_return: the discounted sum of the episode's rewards from this turn on, γ per turn; rewards after a limit
            count as 0.
        version: the policy version that sampled the first action id; −1 for a demonstration.
        episode_id: id of the episode.
        turn: index of the turn in the episode.
        span: number of turns until the next state: 1, or more if turns without tokens follow.
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
    span: int = 1


def transitions(episode: Episode, gamma: float) -> list[Transition]:
    """Return the transitions of an episode, in order.

    Args:
        episode: episode played to an end by a policy that records token ids.
        gamma: discount per turn.

    Raises:
        UnscoredEpisodeError: the episode was not played to an end.
        ContractError: a turn has action ids but no prompt ids, or not one log-probability per action id, or a limit
            cut the episode off and the prompt that would follow is missing.
        UsageError: a reward is not finite, or the turns are of several seats.
    """
    if not episode.trainable:
        raise UnscoredEpisodeError(
            f"episode {episode.episode_id} is {episode.outcome} ({episode.error}): nothing can be learned from it"
        )
    refuse_mixed_seats(episode)
    for index, turn in enumerate(episode.turns):
        _check(episode, index, turn)
    acting = [index for index, turn in enumerate(episode.turns) if turn.action_ids]
    if not acting:
        return []
    cut_off = bootstraps(episode)
    prompts = [episode.turns[index].prompt_ids for index in acting]
    following = [*prompts[1:], final_prompt(episode) if cut_off else ()]
    rewards = [turn.reward for turn in episode.turns]
    returns_U = turn_returns(torch.tensor(rewards, dtype=torch.float64), gamma)
    ends = [*acting[1:], len(episode.turns)]
    return [
        Transition(
            state_ids=turn.prompt_ids,
            action_ids=turn.action_ids,
            logprobs=turn.logprobs,
            reward=sum(gamma**later * reward for later, reward in enumerate(rewards[index:end])),
            next_ids=next_ids,
            done=end == len(episode.turns) and not cut_off,
            mc_return=float(returns_U[index]),
            version=turn.versions[0] if turn.versions else NOBODY,
            episode_id=episode.episode_id,
            turn=index,
            span=end - index,
        )
        for index, end, next_ids in zip(acting, ends, following, strict=True)
        for turn in (episode.turns[index],)
    ]


def _check(episode: Episode, index: int, turn: Turn) -> None:
    refuse_chat_api(episode, turn)
    where = f"turn {index} of episode {episode.episode_id}"
    if turn.action_ids and not turn.prompt_ids:
        raise ContractError(f"{where} has action ids but no prompt ids: its state is unknown")
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
