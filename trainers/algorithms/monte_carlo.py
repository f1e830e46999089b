"""Monte-Carlo returns: Q of a token is the return that followed it. LMRL-Gym's MC (arXiv 2311.18232, §5).

It values what the demonstrators did next, so acting on it is one step of improvement over them. It never discovers what
two bad episodes could achieve together.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from ..critics.token_learning import Estimates
from ..critics.token_steps import Tokens
from .token_value import TokenValueAlgorithm, conservative, taken


class MonteCarlo(TokenValueAlgorithm):
    """One Q head, no V and no targets; LMRL-Gym guides by ``log π_β + β·Q``, which V would not change."""

    critics: ClassVar[int] = 1
    states: ClassVar[bool] = False

    name: Literal["monte_carlo"] = "monte_carlo"
    """Monte-Carlo returns."""

    def loss(self, estimates: Estimates, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        """``Σ w·(½(Q − R)² + α·CQL)`` with R the discounted return from the token on."""
        q_KN = taken(estimates.q_KNV, tokens.ids_N)
        terms = {
            "loss/q": (tokens.weight_N * 0.5 * (q_KN - tokens.return_N).square().sum(0)).sum(),
            "loss/cql": (tokens.weight_N * conservative(estimates.q_KNV, tokens.ids_N).sum(0)).sum(),
        }
        seen = {"q": (tokens.weight_N * q_KN.amin(0)).sum(), "return_to_go": (tokens.weight_N * tokens.return_N).sum()}
        return terms["loss/q"] + self.alpha * terms["loss/cql"], terms | seen
