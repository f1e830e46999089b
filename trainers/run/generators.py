"""The global random generators, as a value: captured in a checkpoint, restored on resume."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def capture_generators() -> dict[str, Any]:
    """The state of torch's generators (CPU and every GPU), numpy's and Python's, of plain types only."""
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (str(name), torch.from_numpy(np.asarray(keys, dtype=np.int64)), position, has_gauss, cached),
        "python": random.getstate(),
    }


def seed_generators(seed: int) -> None:
    """Seed them all: what a library draws from them is then the same in every run of this seed."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def restore_generators(state: Mapping[str, Any]) -> None:
    """Put the global generators back to where ``capture_generators`` found them."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.device_count() == len(state["cuda"]):
        torch.cuda.set_rng_state_all(state["cuda"])
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    random.setstate(state["python"])
