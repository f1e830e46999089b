"""Generalised advantage estimation over the decisions of a batch, where a decision is a turn or a token."""

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
    """The S decisions of a batch, episode by episode, each episode's in the order in which they were taken.

    Args:
        place_N: where each sampled token stands among the T tokens, in the order of decisions.
        decision_N: which decision it is part of.
        episode_S: which episode each decision is of.
        reward_S: what was paid before the next decision, 64-bit.
        discount_S: what the state of the next decision counts for.
    """

    place_N: Tensor
    decision_N: Tensor
    episode_S: Tensor
    reward_S: Tensor
    discount_S: Tensor

    @classmethod
    def of(cls, batch: Batch, level: DecisionLevel, *, gamma: float) -> Decisions:
        """The decisions of a batch.

        At level ``token`` the turn's reward is paid at its last token, and γ discounts from one *turn* to the next:
        inside a turn nothing is discounted, and tokens that an environment inserted are no decisions (algorithms.md,
        trap 12). A turn in which nothing was sampled is no decision either: its reward belongs to the decision before
        it, one γ later. Rows play no part: a turn that a rewritten context put into another row is where it was in
        time.

        Args:
            batch: with its rewards.
            level: what a decision is.
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
        """What stands at the first token of each decision, ``[S]``, 64-bit."""
        first_N = torch.ones_like(self.decision_N, dtype=torch.bool)
        first_N[1:] = self.decision_N[1:] != self.decision_N[:-1]
        return value_T[self.place_N[first_N]].double()

    def spread(self, value_S: Tensor, tokens: int) -> Tensor:
        """Each decision's number on all of its tokens, 0 on context, ``[tokens]``."""
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
    """For every turn with sampled tokens: the reward until the next such turn, and that turn's discount, ``[U]``."""
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
