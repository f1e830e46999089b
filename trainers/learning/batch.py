"""A batch, the input of credit assignment: groups of episodes, their packed rows, and a reward for every turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...errors import UsageError
from ...rollouts.episode import Episode
from .groups import Group, members
from .rows import Rows, pack


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that an algorithm may read to assign credit.

    Args:
        groups: scored episodes, by task.
        episodes: the E members of all groups in order; an episode index of the rows is an index into this tuple.
        rows: tokens of the episodes, with the trainer's own ``logp_old`` and ``entropy``.
        reward_U: reward of each of the U turns of the batch, in the order of episodes and turns; at first the
            environment's, 32-bit.
        episode_U: index of the episode of each turn, ``[U]``.
    """

    groups: tuple[Group, ...]
    episodes: tuple[Episode, ...]
    rows: Rows
    reward_U: Tensor
    episode_U: Tensor

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Batch:
        """Build the batch of these groups, with rows as they were sampled.

        Raises:
            UsageError: a reward is not finite, or an episode has the turns of several seats.
        """
        episodes = members(groups)
        for episode in episodes:
            refuse_mixed_seats(episode)
        rewards = [turn.reward for episode in episodes for turn in episode.turns]
        reward_U = torch.tensor(rewards, dtype=torch.float32)
        counts_E = torch.tensor([len(episode.turns) for episode in episodes], dtype=torch.long)
        episode_U = torch.repeat_interleave(torch.arange(len(episodes)), counts_E)
        wrong_U = (~torch.isfinite(reward_U)).nonzero()[:, 0]
        if wrong_U.numel():
            turn = int(wrong_U[0])
            episode = episodes[int(episode_U[turn])]
            raise UsageError(
                f"episode {episode.episode_id} of {episode.env_id} has a reward of {rewards[turn]}: nothing can be "
                "learned from it; fix the environment (turnwise certify names such faults), or leave the episode out"
            )
        return cls(tuple(groups), tuple(episodes), pack(episodes), reward_U, episode_U)

    @property
    def group_E(self) -> Tensor:
        """Index of each episode's group, ``[E]``."""
        sizes = torch.tensor([len(group.members) for group in self.groups], dtype=torch.long)
        return torch.repeat_interleave(torch.arange(len(self.groups)), sizes)

    @property
    def return_E(self) -> Tensor:
        """Undiscounted return of each episode, ``[E]``, from ``reward_U``; summed in 64 bits."""
        sums = torch.zeros(len(self.episodes), dtype=torch.float64)
        return sums.index_add_(0, self.episode_U, self.reward_U.double()).float()

    @property
    def group_U(self) -> Tensor:
        """Index of each turn's group, ``[U]``."""
        return self.group_E[self.episode_U]

    @property
    def place_U(self) -> Tensor:
        """Index of each turn in its episode, from 0, ``[U]``."""
        counts = torch.bincount(self.episode_U, minlength=len(self.episodes))
        return torch.arange(self.episode_U.numel()) - (torch.cumsum(counts, 0) - counts)[self.episode_U]

    def with_rows(self, rows: Rows) -> Batch:
        """Return the same batch with extended rows: log-probabilities, advantages, weights."""
        return replace(self, rows=rows)

    def with_reward(self, reward_U: Tensor) -> Batch:
        """Return the same batch with other rewards: penalized, or shaped."""
        return replace(self, reward_U=reward_U)


def refuse_mixed_seats(episode: Episode) -> None:
    """Refuse an episode of several players: their rewards would be summed, and each trained on the sum.

    Raises:
        UsageError: the turns have more than one seat.
    """
    seats = sorted({turn.seat for turn in episode.turns})
    if len(seats) > 1:
        raise UsageError(
            f"episode {episode.episode_id} of {episode.env_id} has turns of the seats {', '.join(seats)}, and one "
            "reward for all of them says nothing about each: train on one episode per seat"
        )
