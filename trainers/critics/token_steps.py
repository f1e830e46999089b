"""Sampled tokens as steps of a decision process: the reward of each, its successor, and its return.

A turn's reward comes at its last token. The successor of that token is the first sampled token of the next turn: the
environment's text in between is not a step (traps.md, trap 12), and the next turn may be in another row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ...rollouts.episode import Episode
from ..learning.advantages import bootstraps, final_prompt
from ..learning.batch import refuse_mixed_seats
from ..learning.rows import Rows

Per = Literal["turn", "token"]
INSIDE, NOWHERE = -1, -2
"""Successors that are not a prompt: the next sampled token of the same row, and none, at the end of the episode."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The N sampled tokens of some rows, as steps.

    Args:
        ids_N: sampled token ids, ``[N]``.
        reward_N: reward of each token; 0 before the last token of a turn.
        discount_N: factor on the value of the state after it; 0 at the end of an episode that terminated.
        return_N: discounted sum of all rewards from it on.
        successor_N: ``INSIDE``, ``NOWHERE``, or the index of the prompt that shows the state after it.
        weight_N: weight of each token in a loss.
    """

    ids_N: Tensor
    reward_N: Tensor
    discount_N: Tensor
    return_N: Tensor
    successor_N: Tensor
    weight_N: Tensor

    def as_returns(self) -> Tokens:
        """Return the same tokens with the whole return as reward, and no successor: Monte-Carlo targets."""
        nowhere_N = torch.full_like(self.successor_N, NOWHERE)
        return replace(
            self, reward_N=self.return_N, discount_N=torch.zeros_like(self.discount_N), successor_N=nowhere_N
        )

    def following(self, value_N: Tensor, prompt_value_P: Tensor) -> Tensor:
        """Return the value of the state after each token, ``[N]``.

        Args:
            value_N: value of the state before each token, ``[N]``.
            prompt_value_P: value of the state that each prompt shows, ``[P]``.
        """
        next_N = torch.cat([value_N[1:], value_N.new_zeros(1)])
        shown_N = torch.zeros_like(value_N)
        elsewhere_N = self.successor_N >= 0
        shown_N[elsewhere_N] = prompt_value_P[self.successor_N[elsewhere_N]]
        return torch.where(self.successor_N == INSIDE, next_N, shown_N)


@dataclass(frozen=True, slots=True)
class TokenSteps:
    """The successors of the U turns of some episodes, in the order of episodes and turns.

    Args:
        reward_U: reward at a turn's last token, ``[U]``.
        discount_U: factor on the value of the state after that token, ``[U]``.
        return_U: discounted sum of rewards from that token on; the state after a limit counts as 0, as in LMRL-Gym.
        successor_U: ``INSIDE``, ``NOWHERE``, or the index of the prompt that shows the state after it.
        inside: discount between two tokens of one turn.
        prompts: the distinct prompts that show states whose first token is not in the row of the turn before.
    """

    reward_U: Tensor
    discount_U: Tensor
    return_U: Tensor
    successor_U: Tensor
    inside: float
    prompts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, episodes: Sequence[Episode], rows: Rows, *, gamma: float, per: Per = "turn") -> TokenSteps:
        """Find the steps of episodes.

        Args:
            episodes: episodes in the order in which ``rows`` were packed.
            rows: packed rows of the episodes.
            gamma: discount.
            per: unit of the discount: ``"turn"`` leaves the tokens of a turn undiscounted, so that a long action is
                not worse than a short one; ``"token"`` discounts at every sampled token, as LMRL-Gym does.

        Raises:
            ContractError: a limit cut an episode off, and the prompt that would follow is missing.
            UsageError: an episode has the turns of several seats.
        """
        for episode in episodes:
            refuse_mixed_seats(episode)
        within, between = (1.0, gamma) if per == "turn" else (gamma, 1.0)
        count = sum(len(episode.turns) for episode in episodes)
        follower_U = _followers(rows, count)
        reward_U, discount_U, return_U = torch.zeros(count), torch.zeros(count), torch.zeros(count)
        successor_U = torch.full((count,), NOWHERE)
        prompts: dict[tuple[int, ...], int] = {}
        end = count
        for episode in reversed(episodes):
            first = end - len(episode.turns)
            after = final_prompt(episode) if bootstraps(episode) and episode.turns else None
            later, paid, discount, worth = None, 0.0, gamma, 0.0
            for turn, number in zip(reversed(episode.turns), reversed(range(first, end)), strict=True):
                if not turn.action_ids:  # not a step: its reward belongs to the step before it
                    paid, discount = turn.reward + between * paid, between * discount
                    continue
                reward_U[number] = turn.reward + between * paid
                return_U[number] = reward_U[number] + discount * worth
                discount_U[number] = discount if after is not None else 0.0
                if after is not None:
                    same_row = later is not None and follower_U[number] == later
                    successor_U[number] = INSIDE if same_row else prompts.setdefault(after, len(prompts))
                worth = within ** (len(turn.action_ids) - 1) * float(return_U[number])
                after, later, paid, discount = turn.prompt_ids, number, 0.0, gamma
            end = first
        return cls(reward_U, discount_U, return_U, successor_U, within, tuple(prompts))

    def tokens(self, rows: Rows) -> Tokens:
        """Return the steps of some of the rows, which must be complete."""
        turn_N = rows.turn[rows.mask]
        last_N = torch.ones_like(turn_N, dtype=torch.bool)
        last_N[:-1] = turn_N[1:] != turn_N[:-1]
        place_N = torch.arange(turn_N.numel())
        left_N = last_N.nonzero()[:, 0][torch.cumsum(last_N, 0) - last_N.long()] - place_N
        return Tokens(
            rows.ids[rows.mask],
            torch.where(last_N, self.reward_U[turn_N], 0.0),
            torch.where(last_N, self.discount_U[turn_N], self.inside),
            self.return_U[turn_N] * self.inside**left_N,
            torch.where(last_N, self.successor_U[turn_N], INSIDE),
            rows.weight[rows.mask],
        )


def _followers(rows: Rows, turns: int) -> Tensor:
    """Return the turn of the next sampled token in the row of each turn, ``[turns]``; −1 for none."""
    turn_N, row_N = rows.turn[rows.mask], rows.row[rows.mask]
    follower_U = torch.full((turns,), -1)
    ends_N = (turn_N[1:] != turn_N[:-1]) & (row_N[1:] == row_N[:-1])
    follower_U[turn_N[:-1][ends_N]] = turn_N[1:][ends_N]
    return follower_U
