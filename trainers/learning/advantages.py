"""Advantages: how much better than its peers an episode, or a turn, was."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ...errors import ContractError, UsageError
from ...rollouts.episode import Episode, Outcome
from .batch import Batch
from .groups import ROUNDING

Scale = Literal["none", "group", "batch"]
"""Divisor of an advantage: nothing, or the deviation in its group or in the whole batch."""


def leave_one_out(value_N: Tensor, group_N: Tensor, *, rounding: float = ROUNDING) -> Tensor:
    """``A_i = R_i − mean_{j≠i} R_j = K/(K−1) · (R_i − R̄)`` within each group, without division by a deviation.

    LOOP (arXiv 2502.01600) and RLOO (arXiv 2402.14740). A value that is alone in its group has no baseline, and its
    advantage is 0, never the raw value.

    Args:
        value_N: values to compare, ``[N]``: returns of episodes, or of turns.
        group_N: index of each value's group, ``[N]``.
        rounding: share of a group's largest value up to which a distance from the mean is rounding, and counts as 0.

    Returns:
        ``[N]``, computed in 64 bits.
    """
    size_N = _sum_in_group(torch.ones_like(value_N, dtype=torch.float64), group_N)
    others_N = (size_N - 1).clamp_min(1)  # where it is 1 for want of others, the difference is 0 anyway
    return (_centered(value_N, group_N, rounding) * size_N / others_N).to(value_N.dtype)


def centered(
    value_N: Tensor, group_N: Tensor, *, scale: Scale = "none", epsilon: float = 1e-4, rounding: float = ROUNDING
) -> Tensor:
    """``A_i = R_i − R̄`` within each group, optionally divided by a sample deviation (GRPO, arXiv 2402.03300).

    Args:
        value_N: values to compare, ``[N]``.
        group_N: index of each value's group, ``[N]``; a value alone in its group gets 0.
        scale: ``"none"``; ``"group"``: by the group's deviation, which weights tasks by how *little* their returns
            differ (Dr. GRPO, arXiv 2503.20783); ``"batch"``: by the deviation of all advantages that have a baseline
            (REINFORCE++, arXiv 2501.03262; ScaleRL, arXiv 2510.13786), which weights all tasks alike.
        epsilon: small number added to a deviation, as in TRL.
        rounding: share of a group's largest value up to which a distance from the mean is rounding, and counts as 0:
            equal returns that were paid in different parts differ by it, and Adam would make full steps of it.

    Returns:
        ``[N]``.
    """
    advantage_N = _centered(value_N, group_N, rounding)
    if scale == "none":
        return advantage_N.to(value_N.dtype)
    size_N = _sum_in_group(torch.ones_like(advantage_N), group_N)
    if scale == "group":
        variance_N = _sum_in_group(advantage_N.square(), group_N) / (size_N - 1).clamp_min(1)
        return (advantage_N / (variance_N.sqrt() + epsilon)).to(value_N.dtype)
    compared = advantage_N[size_N > 1]
    deviation = compared.std() if compared.numel() > 1 else torch.tensor(0.0)
    return (advantage_N / (deviation + epsilon)).to(value_N.dtype)


def large_enough(advantage_N: Tensor, share: float) -> Tensor:
    """Return which advantages are at least a share of the batch's largest, ``[N]``; in any unit of reward the same."""
    size_N = advantage_N.abs()
    return size_N >= share * size_N.max() if size_N.numel() else size_N > 0


def beyond_rounding(advantage_N: Tensor, return_N: Tensor) -> Tensor:
    """Return which advantages are more than the rounding of 32-bit returns, ``[N]``: Adam would make steps of it."""
    largest = return_N.abs().max() if return_N.numel() else torch.tensor(0.0)
    return advantage_N.abs() > ROUNDING * largest


def _centered(value_N: Tensor, group_N: Tensor, rounding: float) -> Tensor:
    value_N = value_N.double()
    size_N = _sum_in_group(torch.ones_like(value_N), group_N)
    distance_N = value_N - _sum_in_group(value_N, group_N) / size_N
    if not value_N.numel():
        return distance_N
    largest_G = torch.zeros(int(group_N.max()) + 1, dtype=value_N.dtype)
    largest_G.scatter_reduce_(0, group_N, value_N.abs(), "amax")
    return torch.where(distance_N.abs() > rounding * largest_G[group_N], distance_N, 0.0)


def _sum_in_group(value_N: Tensor, group_N: Tensor) -> Tensor:
    """Return the sum over each value's group, ``[N]``."""
    if not group_N.numel():
        return value_N
    sums = torch.zeros(int(group_N.max()) + 1, dtype=value_N.dtype)
    return sums.index_add_(0, group_N, value_N)[group_N]


def backward_sums(value_S: Tensor, decay_S: Tensor) -> Tensor:
    """``x_t = value_t + decay_t · x_{t+1}`` from the last to the first, ``[S]``: returns, and λ-weighted sums."""
    sums, decays, following = value_S.tolist(), decay_S.tolist(), 0.0
    for step in reversed(range(len(sums))):
        sums[step] = following = sums[step] + decays[step] * following
    return torch.tensor(sums, dtype=value_S.dtype)


def turn_returns(rewards_U: Tensor, gamma: float) -> Tensor:
    """Return the discounted return from each turn of one episode on, ``[U]``; γ is per *turn*, whatever its length."""
    return backward_sums(rewards_U, torch.full_like(rewards_U, gamma))


def returns_to_go(batch: Batch, gamma: float) -> Tensor:
    """Return the discounted return from each turn of a batch on, ``[U]``, from the batch's rewards; γ is per turn."""
    counts = torch.bincount(batch.episode_U, minlength=len(batch.episodes)).tolist()
    parts = [turn_returns(reward_U, gamma) for reward_U in torch.split(batch.reward_U, counts)]
    return torch.cat(parts) if parts else batch.reward_U


def turn_gae(
    rewards_U: Tensor, values_U: Tensor, *, bootstrap: float | None, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Generalized advantage estimation over the turns of one episode (arXiv 1506.02438, eq. 16, a turn as the step).

    Turns are given explicitly, never inferred from rewards (traps.md, trap 13), and tokens play no part: γ and λ
    are per turn (trap 12).

    Args:
        rewards_U: reward of each turn, ``[U]``.
        values_U: V(s) before each turn, ``[U]``.
        bootstrap: V(s_T) of the state after the last turn if the episode was *truncated*; ``None`` if it terminated.
        gamma: discount per turn.
        lam: λ per turn.

    Returns:
        Advantages ``[U]``, and value targets ``[U]`` (advantage + value).

    Raises:
        UsageError: rewards and values differ in number.
    """
    if rewards_U.shape != values_U.shape:
        raise UsageError(f"{rewards_U.numel()} rewards and {values_U.numel()} values: one of each is needed per turn")
    next_U = torch.cat([values_U, torch.tensor([bootstrap or 0.0], dtype=values_U.dtype)])[1:]
    delta_U = rewards_U + gamma * next_U - values_U
    advantage_U = backward_sums(delta_U, torch.full_like(delta_U, gamma * lam))
    return advantage_U, advantage_U + values_U


def turn_rewards(episode: Episode) -> Tensor:
    """Return the rewards of an episode's turns, ``[U]``."""
    return torch.tensor([turn.reward for turn in episode.turns], dtype=torch.float32)


def bootstraps(episode: Episode) -> bool:
    """Whether the state after the last turn has a value: only a limit ended the episode, not the task itself."""
    return episode.outcome is Outcome.TRUNCATED and not (episode.turns and episode.turns[-1].terminated)


def final_prompt(episode: Episode, *, context: int | None = None) -> tuple[int, ...]:
    """Return the prompt after the last turn, which the agent would have read next: the state that has a value.

    Args:
        episode: an episode for which ``bootstraps`` holds.
        context: tokens that the policy, and a critic like it, can read; ``None`` for no limit.

    Raises:
        ContractError: the episode does not have this prompt, or it exceeds the context.
    """
    if not episode.final_prompt_ids:
        raise ContractError(
            f"episode {episode.episode_id} was cut off by a limit and has no final_prompt_ids, so the value of its "
            "last state is unknown. Record it with an agent whose sessions can read without acting, or leave the "
            "episode out"
        )
    if context is not None and len(episode.final_prompt_ids) > context:
        raise ContractError(
            f"episode {episode.episode_id} was cut off by a limit, and its next prompt of "
            f"{len(episode.final_prompt_ids)} tokens exceeds the context of {context}, so no critic can value its last "
            "state. Use a shorter agent.context (last:K), or a lower limit of turns"
        )
    return episode.final_prompt_ids


def context_of(model: Any) -> int | None:
    """Return the number of tokens that a model can read; ``None`` if it does not say."""
    length: int | None = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return length
