"""Precision of a forward pass: one definition for every model that has to agree with another in numbers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def autocast_to(dtype: torch.dtype | None, device: torch.device) -> AbstractContextManager[object]:
    """Compute matrix products in a precision within the block.

    Args:
        dtype: precision of the products; ``None`` computes in that of the weights.
        device: device of the model.
    """
    return torch.autocast(device.type, dtype) if dtype is not None else nullcontext()
