"""Slow copies: what targets are computed with follows what learns."""

from __future__ import annotations

import torch
from torch import nn

from ..learning.sharded_state import reshard


@torch.no_grad()
def follow(target: nn.Module, online: nn.Module, share: float) -> None:
    """Polyak averaging: ``θ̄ ← (1 − share)·θ̄ + share·θ``; nothing where the two are one."""
    if target is online:
        return
    reshard(target)
    reshard(online)
    for late, early in zip(target.parameters(), online.parameters(), strict=True):
        late.lerp_(early, share)
