"""Modulators: factors and terms that some papers apply to another algorithm's advantages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from ...config import Config
from ..learning.batch import Batch
from ..learning.loss import Level
from ..learning.rows import Rows
from .algorithm import Credit


class Modulator(Config):
    """A modulator is a small frozen configuration with one method, which turns advantages into other advantages.

    It follows any algorithm, is stateless, and sees the batch of the algorithm. ``modulated`` applies those in a
    configuration's ``modulators`` in order.
    """

    credit_level: ClassVar[Level] = "turn"
    """Coarsest segment whose tokens all get the same factor and term."""

    name: str
    """Name of the modulator."""

    @abstractmethod
    def modulate(self, batch: Batch, rows: Rows) -> Rows:
        """Return the rows with other advantages.

        Args:
            batch: the batch of the algorithm; its own rows may lack advantages.
            rows: rows with an advantage on every sampled token, and the trainer's own ``entropy``. Tokens of turns that
                the algorithm skipped are outside of their mask, and inside that of the batch's own rows.
        """


def modulated(modulators: Sequence[Modulator], batch: Batch, credit: Credit) -> Rows:
    """Return the rows of a credit after these modulators, in order. Turns that the algorithm skipped keep 0."""
    rows = credit.rows
    if credit.skipped_U is not None:
        rows = replace(rows, mask=rows.mask & ~credit.skipped_U[rows.turn.clamp_min(0)])
    for modulator in modulators:
        rows = modulator.modulate(batch, rows)
    return replace(rows, mask=credit.rows.mask)


def per_turn(batch: Batch, rows: Rows, values_T: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of a value over the sampled tokens of each turn, and their number, ``[U]`` each, in 64 bits.

    A turn whose action has no tokens (a scripted agent's) sums to 0 over 0 tokens.
    """
    turns_N = rows.turn[rows.mask]
    zeros_U = torch.zeros(len(batch.reward_U), dtype=torch.float64)
    sums_U = zeros_U.index_add(0, turns_N, values_T[rows.mask].double())
    return sums_U, zeros_U.index_add(0, turns_N, torch.ones(len(turns_N), dtype=torch.float64))
