"""Shared parts of the offline learners of token values: settings, and the penalty that keeps Q near the data."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import pydantic
from torch import Tensor

from ...config import Config
from ..critics.token_learning import Estimates
from ..critics.token_steps import Per, Tokens


class TokenValueAlgorithm(Config):
    """A rule for learning Q and V of tokens from episodes: a small frozen configuration with one method."""

    critics: ClassVar[int]
    """Number of Q heads."""
    states: ClassVar[bool]
    """Whether there is a V head, with target networks that follow."""

    name: str
    """Name of the algorithm."""
    gamma: float = pydantic.Field(default=0.99, ge=0, le=1)
    """Discount γ (LMRL-Gym: 0.99)."""
    discount_per: Per = "turn"
    """Unit of the discount γ: a ``turn``, or every sampled ``token`` (LMRL-Gym)."""
    alpha: float = pydantic.Field(default=0.1, ge=0)
    """Weight α of the conservative term. LMRL-Gym has 0 in its mazes, where it evaluates by ranking the four legal
    actions. A model that samples freely needs it: nothing else teaches Q of tokens that the data never shows."""

    @abstractmethod
    def loss(self, estimates: Estimates, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the *sum* of the loss over tokens, by their weights, and its terms."""


def taken(q_KNV: Tensor, ids_N: Tensor) -> Tensor:
    """Return Q of the sampled tokens, ``[K, N]``."""
    return q_KNV.gather(-1, ids_N.expand(q_KNV.shape[0], -1)[..., None])[..., 0]


def conservative(q_KNV: Tensor, ids_N: Tensor) -> Tensor:
    """``log Σ_a exp Q(s, a) − Q(s, a_t)`` of each critic, ``[K, N]``: the cross-entropy of the sampled token under Q.

    CQL (Kumar et al., arXiv 2006.04779, eq. 4) as ILQL has it per token (arXiv 2206.11871, §4.2).
    """
    return q_KNV.logsumexp(-1) - taken(q_KNV, ids_N)
