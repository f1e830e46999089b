"""Generalized advantage estimation over the decisions of a batch, where a decision is a turn or a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .advantages import backward_sums
from .batch import Batch

DecisionLevel = Literal["turn", "token"]


@dataclass(frozen=True, slots=True)
class Decisions:
    """The S decisions of a batch, episode by episode, in the order in which they were made.

    Args:
        place_N: index of each sampled token among the T tokens, in the order of decisions.
        decision_N: index of the decision that each sampled token is part of.
        episode_S: index of each decision's episode.
        reward_S: reward between each decision and the next, 64-bit.
        discount_S: factor on the value of the next decision's state.
    """

    place_N: Tensor
    decision_N: Tensor
    episode_S: Tensor
    reward_S: Tensor
    discount_S: Tensor

    @classmethod
    def of(cls, batch: Batch, level: DecisionLevel, *, gamma: float) -> Decisions:
        """Find the decisions of a batch.

        At level ``token`` the turn's reward comes at its last token, and γ discounts from one *turn* to the next, never
        inside a turn. Tokens that an environment inserted are not decisions (traps.md, trap 12), nor is a turn
        without sampled tokens: its reward belongs to the decision before it, one γ later. Rows play no part. A turn
        that a rewritten context put into another row keeps its place in time.

        Args:
            batch: the batch, with its rewards.
            level: unit of a decision.
            gamma: discount per turn.
        """
        place_N = batch.rows.mask.nonzero()[:, 0]
        turn_N = batch.rows.turn[place_N]
        order_N = torch.argsort(turn_N, stable=True)  # turns are numbered in time, episode by episode
        place_N, turn_N = place_N[order_N], turn_N[order_N]
        reward_U, discount_U = _paid(batch, turn_N, gamma)
        last_N = torch.ones_like(turn_N, dtype=torch.bool)
        last_N[:-1] = turn_N[1:] != turn_N[:-1]
        if level == "turn":
            decision_N = torch.cumsum(last_N, 0) - last_N.long()
            turn_S = turn_N[last_N]
            return cls(place_N, decision_N, batch.episode_U[turn_S], reward_U[turn_S], discount_U[turn_S])
        reward_S = torch.where(last_N, reward_U[turn_N], 0.0)
        discount_S = torch.where(last_N, discount_U[turn_N], 1.0)
        return cls(place_N, torch.arange(turn_N.numel()), batch.episode_U[turn_N], reward_S, discount_S)

    def gather(self, value_T: Tensor) -> Tensor:
        """Return the value at the first token of each decision, ``[S]``, 64-bit."""
        first_N = torch.ones_like(self.decision_N, dtype=torch.bool)
        first_N[1:] = self.decision_N[1:] != self.decision_N[:-1]
        return value_T[self.place_N[first_N]].double()

    def spread(self, value_S: Tensor, tokens: int) -> Tensor:
        """Copy each decision's number to all of its tokens, with 0 on context, ``[tokens]``."""
        value_T = torch.zeros(tokens)
        value_T[self.place_N] = value_S.float()[self.decision_N]
        return value_T

    def gae(self, value_S: Tensor, final_E: Tensor, *, lam: float) -> Tensor:
        """``A_t = δ_t + γ_t λ A_{t+1}`` with ``δ_t = r_t + γ_t V_{t+1} − V_t`` (arXiv 1506.02438, eq. 16).

        Args:
            value_S: V of the state before each decision.
            final_E: V of the state after each episode's last decision; 0 where it terminated.
            lam: λ per decision.

        Returns:
            Advantages ``[S]``, 64-bit.
        """
        last_S = torch.ones_like(self.episode_S, dtype=torch.bool)
        last_S[:-1] = self.episode_S[1:] != self.episode_S[:-1]
        next_S = torch.where(last_S, final_E.double()[self.episode_S], torch.roll(value_S.double(), -1))
        delta_S = self.reward_S + self.discount_S * next_S - value_S.double()
        return backward_sums(delta_S, torch.where(last_S, 0.0, self.discount_S * lam))


def _paid(batch: Batch, turn_N: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Return the reward until the next such turn and the discount of every turn with sampled tokens, ``[U]`` each."""
    turns = batch.reward_U.numel()
    number_U = torch.arange(turns)
    sampled_U = torch.zeros(turns, dtype=torch.bool)
    sampled_U[turn_N] = True
    owner_U = torch.where(sampled_U, number_U, -1)
    owner_U = torch.cummax(owner_U, 0).values if turns else owner_U
    owned_U = (owner_U >= 0) & (batch.episode_U[owner_U.clamp_min(0)] == batch.episode_U)
    owner_V, age_V = owner_U[owned_U], (number_U - owner_U)[owned_U]
    reward_U = torch.zeros(turns, dtype=torch.float64)
    reward_U.index_add_(0, owner_V, gamma ** age_V.double() * batch.reward_U.double()[owned_U])
    length_U = torch.zeros(turns, dtype=torch.float64).index_add_(0, owner_V, torch.ones_like(age_V).double())
    return reward_U, gamma**length_U
