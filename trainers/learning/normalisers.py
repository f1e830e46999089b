"""Normalisers: what each sampled token counts for, computed once over a whole batch; losses are then only summed."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from ...errors import UsageError
from .rows import Rows

Normaliser = Literal["traj_mean", "token_mean", "group_mean", "const"]


def normaliser(rows: Rows, mode: Normaliser, *, denominator: float | None = None) -> Tensor:
    """The weight of every token, ``[T]``; 0 outside actions.

    The weights do not depend on how a batch is later divided into micro-batches, rows, padding or processes, and
    dropping episodes afterwards does not change the weight of those that stay (algorithms.md, traps 8 and 21).

    Args:
        rows: the whole batch.
        mode: ``"traj_mean"``: a mean over each trajectory's tokens, then over trajectories (LOOP, arXiv 2502.01600);
            ``"token_mean"``: over all tokens; ``"group_mean"``: over each group's tokens, then over groups;
            ``"const"``: every token counts ``1 / denominator``, so longer actions count for more.
        denominator: replaces the number of trajectories, tokens or groups by a constant.

    Raises:
        UsageError: no such mode, or a denominator that is missing or not positive.
    """
    if mode not in get_args(Normaliser):
        raise UsageError(f"normaliser {mode!r} is unknown; choose one of {', '.join(get_args(Normaliser))}")
    if denominator is not None and not denominator > 0:
        raise UsageError(f"normaliser denominator {denominator} is not positive")
    if mode == "const":
        if denominator is None:
            raise UsageError("normaliser 'const' needs a denominator")
        return _spread(rows, torch.full_like(rows.weight, 1.0 / denominator))
    if mode == "token_mean":
        return _spread(rows, torch.full_like(rows.weight, 1.0 / (denominator or max(rows.tokens, 1))))
    units = rows.episode if mode == "traj_mean" else rows.group
    if not units.numel():
        return rows.weight
    sizes = torch.zeros(int(units.max()) + 1).index_add_(0, units, rows.mask.float())
    count = denominator or max(int((sizes > 0).sum()), 1)
    return _spread(rows, 1.0 / (sizes[units].clamp_min(1.0) * count))


def _spread(rows: Rows, weight_T: Tensor) -> Tensor:
    return torch.where(rows.mask, weight_T, 0.0)
