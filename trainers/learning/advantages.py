"""Advantages: how much better than its peers an episode, or a turn, was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...errors import UsageError
from ...rollouts.episode import Episode, Outcome
from .groups import Group


def leave_one_out(groups: Sequence[Group]) -> Tensor:
    """``A_i = R_i − mean_{j≠i} R_j = K/(K−1) · (R_i − R̄)`` per member, without division by a deviation.

    LOOP (arXiv 2502.01600) and RLOO (arXiv 2402.14740). A group of fewer than two scored members has no baseline, and
    its advantage is 0: never the raw reward.

    Args:
        groups: groups of scored episodes.

    Returns:
        ``[E]``, in the order of ``members(groups)``.
    """
    return _per_group(groups, loo)


def grpo(groups: Sequence[Group], *, std: bool = False, epsilon: float = 1e-6) -> Tensor:
    """``A_i = R_i − R̄``, divided by the group's sample deviation if asked (GRPO, arXiv 2402.03300).

    Args:
        groups: groups of scored episodes; one of fewer than two members gets 0.
        std: divide by the deviation. Off by default: it weights tasks by how *little* their returns differ.
        epsilon: added to the deviation.

    Returns:
        ``[E]``, in the order of ``members(groups)``.
    """

    def centred(returns_K: Tensor) -> Tensor:
        if returns_K.numel() < 2:
            return torch.zeros_like(returns_K)
        advantage_K = returns_K - returns_K.mean()
        return advantage_K / (returns_K.std() + epsilon) if std else advantage_K

    return _per_group(groups, centred)


def loo(returns_K: Tensor) -> Tensor:
    """The leave-one-out advantage of K returns; zeros where K < 2."""
    count = returns_K.numel()
    if count < 2:
        return torch.zeros_like(returns_K)
    return (returns_K - returns_K.mean()) * (count / (count - 1))


def turn_returns(rewards_U: Tensor, gamma: float) -> Tensor:
    """Discounted return from each turn of one episode on, ``[U]``; γ is per *turn*, whatever the turns' lengths."""
    returns_U = torch.zeros_like(rewards_U)
    following = 0.0
    for turn in reversed(range(rewards_U.numel())):
        following = float(rewards_U[turn]) + gamma * following
        returns_U[turn] = following
    return returns_U


def turn_gae(
    rewards_U: Tensor, values_U: Tensor, *, bootstrap: float | None, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation over the turns of one episode (arXiv 1506.02438, eq. 16, a turn as the step).

    Turns are given explicitly, never inferred from rewards (algorithms.md, trap 13), and tokens play no part: γ and λ
    are per turn (trap 12).

    Args:
        rewards_U: reward of each turn.
        values_U: V(s) before each turn.
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
    advantage_U = torch.zeros_like(rewards_U)
    following_value, following_advantage = bootstrap or 0.0, 0.0
    for turn in reversed(range(rewards_U.numel())):
        delta = float(rewards_U[turn]) + gamma * following_value - float(values_U[turn])
        following_advantage = delta + gamma * lam * following_advantage
        following_value = float(values_U[turn])
        advantage_U[turn] = following_advantage
    return advantage_U, advantage_U + values_U


def turn_rewards(episode: Episode) -> Tensor:
    """The rewards of an episode's turns, ``[U]``."""
    return torch.tensor([turn.reward for turn in episode.turns], dtype=torch.float32)


def bootstraps(episode: Episode) -> bool:
    """Whether the state after the last turn has a value: only a limit ended the episode, not the task itself."""
    return episode.outcome is Outcome.TRUNCATED and not (episode.turns and episode.turns[-1].terminated)


def _per_group(groups: Sequence[Group], estimate: Callable[[Tensor], Tensor]) -> Tensor:
    parts = [estimate(torch.tensor(group.returns, dtype=torch.float64)) for group in groups]
    return torch.cat(parts).float() if parts else torch.zeros(0)
