"""The interface of on-policy algorithms: how one gives credit, and the settings of its paper."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from ...config import Config
from ..critics.values import Values
from ..learning.batch import Batch
from ..learning.kl import KLConfig
from ..learning.loss import Level
from ..learning.rows import Rows


@dataclass(frozen=True, slots=True)
class Credit:
    """The result of an algorithm.

    Args:
        rows: the rows of the batch, with an advantage on every sampled token.
        target_T: the value target of the critic for the state before each sampled token, ``[T]``; ``None`` without a
            critic.
        value_T: the critic's value of the state before each sampled token, ``[T]``, for readers of kept episodes;
            ``None`` without a critic.
        skipped_U: turns whose advantage is unknown, ``[U]``; they have advantage 0, and keep it whatever modulators
            follow. ``None`` if there are none.
    """

    rows: Rows
    target_T: Tensor | None = None
    value_T: Tensor | None = None
    skipped_U: Tensor | None = None


class Algorithm(Config):
    """An algorithm is a small frozen configuration with one verb: it turns a batch into per-token advantages.

    Those of Turnwise are stateless; what learns (model, critic) is handed to them. One that remembers something between
    steps keeps it in private attributes, and has ``state_dict()`` and ``load_state_dict(state)`` for checkpoints.
    ``trainers/on_policy.py`` does the rest: sampling, minibatches, the loss, checkpoints.
    """

    paper: ClassVar[Mapping[str, Any]] = {}
    """Settings of the script that make the loss the paper's, e.g. ``{"loss": {"ratio_level": "trajectory"}}``; whatever
    a user sets wins."""
    needs_values: ClassVar[bool] = False
    """Whether ``credit`` needs a critic."""
    smallest_group: ClassVar[int] = 1
    """The fewest attempts per task with which the baseline exists."""
    strategy: ClassVar[str | None] = None
    """The ``branching.strategy`` whose episodes it gives credit to; ``None`` where it asks for none."""

    name: str
    """Name of the algorithm."""

    @property
    def credit_level(self) -> Level:
        """Coarsest segment whose tokens all have the same advantage; a ratio of ``ppo`` must not be coarser."""
        return "trajectory"

    @abstractmethod
    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Return advantages for every sampled token of a batch.

        Args:
            batch: the batch, with the trainer's own ``logp_old`` and ``entropy``.
            values: the critic, if ``needs_values``.
        """

    def frozen(self, penalty: KLConfig) -> KLConfig:
        """Return which frozen model scores the batch as ``logp_ref``; by default that of the loss's KL penalty.

        Raises:
            ValueError: the algorithm cannot be combined with the penalty.
        """
        return penalty

    def warming(self) -> Self:
        """Return the algorithm for the first steps, in which only the critic learns."""
        return self
