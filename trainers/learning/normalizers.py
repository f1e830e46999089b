"""Normalizers: the weight of each sampled token, computed once over a whole batch; losses are then only summed."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from ...errors import UsageError
from .rows import Rows

Normalizer = Literal["traj_mean", "traj_sum", "turn_mean", "token_mean", "group_mean", "const"]


def normalizer(rows: Rows, mode: Normalizer, *, denominator: float | None = None) -> Tensor:
    """Return the weight of every token, ``[T]``; 0 outside actions.

    The weights do not depend on how a batch is later divided into micro-batches, rows, padding or processes, and
    dropping episodes afterwards does not change the weight of those that stay (traps.md, traps 8 and 21).

    Args:
        rows: rows of the whole batch.
        mode: ``"traj_mean"``: a mean over each trajectory's tokens, then over trajectories (LOOP, arXiv 2502.01600);
            ``"traj_sum"``: the sum over each trajectory's tokens, a mean over trajectories (REINFORCE as derived, with
            the log-probability of whole trajectories); ``"turn_mean"``: a mean over each turn's tokens, over each
            trajectory's turns, and over trajectories (M-GRPO, arXiv 2505.16421); ``"token_mean"``: over all tokens;
            ``"group_mean"``: over each group's tokens, then over groups; ``"const"``: every token has the weight
            ``1 / denominator``, so longer actions count for more.
        denominator: constant that replaces the number of trajectories, tokens or groups.

    Raises:
        UsageError: the mode is unknown, or the denominator is missing or not positive.
    """
    if mode not in get_args(Normalizer):
        raise UsageError(f"normalizer={mode!r} is unknown; choose one of {', '.join(get_args(Normalizer))}")
    if denominator is not None and not denominator > 0:
        raise UsageError(f"the denominator {denominator} of the loss is not positive")
    if mode == "const":
        if denominator is None:
            raise UsageError("normalizer='const' needs a denominator: set denominator to a positive number")
        return _spread(rows, torch.full_like(rows.weight, 1.0 / denominator))
    if mode == "token_mean":
        return _spread(rows, torch.full_like(rows.weight, 1.0 / (denominator or max(rows.tokens, 1))))
    units = rows.group if mode == "group_mean" else rows.episode
    count = denominator or max(int(torch.unique(units[rows.mask]).numel()), 1)
    if mode == "traj_sum":
        return _spread(rows, torch.full_like(rows.weight, 1.0 / count))
    if mode == "turn_mean":
        turns = torch.unique(torch.stack([rows.episode, rows.turn])[:, rows.mask], dim=1)  # those with a token
        sizes = _tally(rows.turn[rows.mask], rows.turn.clamp_min(0)) * _tally(turns[0], rows.episode)
    else:
        sizes = _tally(units[rows.mask], units)
    return _spread(rows, 1.0 / (sizes.clamp_min(1.0) * count))


def per_utterance(rows: Rows) -> Tensor:
    """Return the weights divided by the number of tokens of each utterance, ``[T]``, so that their sum is one token's.

    With a ratio of the whole utterance, the kernel sums over tokens what is already the term of the utterance.
    """
    return rows.weight / _tally(rows.turn[rows.mask], rows.turn.clamp_min(0)).clamp_min(1.0)


def _tally(seen: Tensor, wanted: Tensor) -> Tensor:
    """Count how often each of ``wanted`` is among ``seen``; both are indices."""
    length = int(wanted.max()) + 1 if wanted.numel() else 0
    return torch.bincount(seen, minlength=length).float()[wanted]


def _spread(rows: Rows, weight_T: Tensor) -> Tensor:
    return torch.where(rows.mask, weight_T, 0.0)
