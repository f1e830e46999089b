"""Kinds of AdamW: the same update, with another memory and speed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from ...errors import UsageError

OptimizerKind = Literal["adamw", "adamw-fused", "adamw-8bit"]


def adamw(kind: OptimizerKind, parameters: Iterable[Tensor], **settings: Any) -> torch.optim.Optimizer:
    """Create an optimizer.

    Args:
        kind: ``adamw`` is torch's; ``adamw-fused`` computes each tensor in one kernel, without temporary copies;
            ``adamw-8bit`` keeps the moments in 8 bits (Dettmers et al., arXiv 2110.02861; package ``bitsandbytes``).
        parameters: parameters to train.
        settings: ``lr``, ``betas`` and ``weight_decay``.

    Raises:
        UsageError: this machine cannot compute it.
    """
    if kind == "adamw":
        return torch.optim.AdamW(parameters, **settings)
    if kind == "adamw-fused":
        return torch.optim.AdamW(parameters, fused=True, **settings)
    parameters = list(parameters)
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError as error:
        raise UsageError(
            f"optimizer.kind = adamw-8bit needs the package bitsandbytes ({error}): pip install turnwise[8bit], or use "
            "adamw-fused"
        ) from None
    device = parameters[0].device if parameters else torch.device("cpu")
    try:
        _try(AdamW8bit, device)
    except Exception as error:
        raise UsageError(
            f"optimizer.kind = adamw-8bit does not work on {device} here ({type(error).__name__}: {error}); use "
            "adamw-fused"
        ) from None
    made: torch.optim.Optimizer = AdamW8bit(parameters, **settings)
    return made


def _try(kind: Any, device: torch.device) -> None:
    """Make one update of a tensor that is large enough to be quantized, since a missing kernel shows only then."""
    probe = torch.nn.Parameter(torch.zeros(8192, device=device))
    probe.grad = torch.ones_like(probe)
    kind([probe], lr=1e-3).step()
    if not (probe.detach() < 0).all():
        raise ValueError("an update moved nothing")
