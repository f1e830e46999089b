"""What the offline learners of token values have in common: settings, and the penalty that keeps Q near the data."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import pydantic
from torch import Tensor

from ...config import Config
from ..critics.token_learning import Estimates
from ..critics.token_steps import Per, Tokens


class TokenValueAlgorithm(Config):
    """A rule by which Q and V of tokens are learnt from episodes: a small frozen configuration with one verb."""

    critics: ClassVar[int]
    """How many Q heads it has."""
    states: ClassVar[bool]
    """Whether it has a V head, and targets that follow."""

    name: str
    """Which algorithm."""
    gamma: float = pydantic.Field(default=0.99, ge=0, le=1)
    """Discount γ (LMRL-Gym: 0.99)."""
    discount_per: Per = "turn"
    """What γ discounts: ``turn``, or every sampled ``token`` (LMRL-Gym)."""
    alpha: float = pydantic.Field(default=0.1, ge=0)
    """Weight α of the conservative term. LMRL-Gym has 0 in its mazes, where it evaluates by ranking the four legal
    actions; a model that is sampled needs it: Q of a token that is never shown is learnt from nothing else."""

    @abstractmethod
    def loss(self, estimates: Estimates, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        """The *sum* of the loss over tokens, by their weights, and its terms."""


def taken(q_KNV: Tensor, ids_N: Tensor) -> Tensor:
    """Q of the sampled tokens, ``[K, N]``."""
    return q_KNV.gather(-1, ids_N.expand(q_KNV.shape[0], -1)[..., None])[..., 0]


def conservative(q_KNV: Tensor, ids_N: Tensor) -> Tensor:
    """``log Σ_a exp Q(s, a) − Q(s, a_t)`` of each critic, ``[K, N]``: the cross-entropy of the sampled token under Q.

    CQL (Kumar et al., arXiv 2006.04779, eq. 4) as ILQL has it per token (arXiv 2206.11871, §4.2).
    """
    return q_KNV.logsumexp(-1) - taken(q_KNV, ids_N)
