"""ILQL: implicit Q-learning over tokens. Snell et al., "Offline RL for Natural Language Generation with Implicit
Language Q Learning" (arXiv 2206.11871), as LMRL-Gym (arXiv 2311.18232) has it.

V approaches the best action that the data shows in a state, and Q looks one token ahead. No action outside the data is
ever evaluated, and good pieces of bad episodes are combined.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import pydantic
import torch
from torch import Tensor

from ..critics.token_learning import Estimates
from ..critics.token_steps import Tokens
from .token_value import TokenValueAlgorithm, conservative, taken


class ILQL(TokenValueAlgorithm):
    """Two Q heads with targets, and a V head between the mean and the maximum."""

    critics: ClassVar[int] = 2
    states: ClassVar[bool] = True

    name: Literal["ilql"] = "ilql"
    """Implicit Q-learning over tokens."""
    tau: float = pydantic.Field(default=0.95, gt=0, lt=1)
    """Expectile τ of V: 0.5 values the behavior policy, towards 1 its best actions (LMRL-Gym: 0.95 in mazes)."""

    def loss(self, estimates: Estimates, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        """``Σ w·(½ Σ_i (Q_i − (r + γV(s′)))² + |τ − 1(u < 0)|·½u² + α Σ_i CQL_i)`` with ``u = min_i Q̄_i − V``.

        ILQL, eq. 1 to 3 and §4.2.
        """
        goal_N = tokens.reward_N + tokens.discount_N * estimates.next_N
        q_KN = taken(estimates.q_KNV, tokens.ids_N)
        terms = {
            "loss/q": (tokens.weight_N * 0.5 * (q_KN - goal_N).square().sum(0)).sum(),
            "loss/v": (tokens.weight_N * expectile(estimates.target_KN.amin(0), estimates.v_N, self.tau)).sum(),
            "loss/cql": (tokens.weight_N * conservative(estimates.q_KNV, tokens.ids_N).sum(0)).sum(),
        }
        loss = terms["loss/q"] + terms["loss/v"] + self.alpha * terms["loss/cql"]
        seen = {"q": (tokens.weight_N * q_KN.amin(0)).sum(), "v": (tokens.weight_N * estimates.v_N).sum()}
        return loss, terms | seen


def expectile(target_N: Tensor, value_N: Tensor, tau: float) -> Tensor:
    """``|τ − 1(u < 0)|·½u²`` with ``u = target − value``: its minimizer is the τ-expectile of the targets.

    IQL (Kostrikov et al., arXiv 2110.06169, eq. 5); the ½ is LMRL-Gym's.

    Args:
        target_N: targets, without gradient.
        value_N: values that are fitted to them.
        tau: expectile τ; 0.5 gives a quarter of the squared error.
    """
    gap_N = target_N - value_N
    return torch.where(gap_N < 0, 1 - tau, tau) * 0.5 * gap_N.square()
