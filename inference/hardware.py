"""GPUs as their makers describe them, and the settings that suit each: profiles for training and for serving.

They come from arithmetic that ``turnwise plan`` shows; one H200 ran those of training (docs/hardware.md).
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ProfileName = Literal["auto", "cpu", "gpu", "a100", "a100-40gb", "h100", "h200", "b200", "l40s"]


@dataclass(frozen=True, slots=True)
class Gpu:
    """The capabilities of a GPU, from its maker's data sheet.

    Args:
        title: name for people.
        gib: memory that a program can use, in GiB.
        tflops: dense matrix products in bfloat16, in TFLOP/s.
        bandwidth: memory bandwidth, in GB/s.
        link: bandwidth to the other GPUs of the same machine, in GB/s in each direction.
    """

    title: str
    gib: float
    tflops: float
    bandwidth: float
    link: float


GPUS: Mapping[str, Gpu] = {
    "a100": Gpu("A100 80 GB", 79.1, 312, 2039, 300),
    "a100-40gb": Gpu("A100 40 GB", 39.4, 312, 1555, 300),
    "h100": Gpu("H100 80 GB", 79.1, 989, 3350, 450),
    "h200": Gpu("H200 141 GB", 139.8, 989, 4800, 450),
    "b200": Gpu("B200 180 GB", 178.3, 2250, 8000, 900),
    "l40s": Gpu("L40S 48 GB", 44.4, 362, 864, 32),
}
"""GPUs with a profile; the SXM forms, where there are several."""

NAMES: Mapping[str, str] = {"A100": "a100", "H100": "h100", "H200": "h200", "B200": "b200", "L40S": "l40s"}
"""Words in the name that the driver reports, each with its profile."""
MICROBATCH: Mapping[str, int] = {"gpu": 8192, "a100-40gb": 8192, "l40s": 8192, "h200": 32_768, "b200": 32_768}
"""Tokens of a micro-batch, where 16,384 are too many or too few."""
CONTEXT, BATCHED, SEQUENCES = 16_384, 8192, 256
"""Limits of a vLLM server on a GPU: tokens of prompt plus action, tokens of one step, and requests at once."""
ALONE, BESIDE = 0.9, 0.4
"""Share of a GPU's memory for vLLM: alone on it, and beside a learner."""


def profile_of(name: str, gib: float, *, bfloat16: bool = True) -> str:
    """Return the profile of a GPU.

    Args:
        name: name that the driver reports, e.g. ``NVIDIA H100 80GB HBM3``.
        gib: its memory in GiB.
        bfloat16: whether it computes in bfloat16; an older one keeps the defaults of a CPU.
    """
    if not bfloat16:
        return "cpu"
    found = next((profile for word, profile in NAMES.items() if re.search(rf"\b{word}\b", name)), "gpu")
    return "a100-40gb" if found == "a100" and gib < 60 else found


def detected_profile(device: str = "auto") -> str:
    """Return the profile of a device of this machine; ``cpu`` if it is not a GPU that torch sees."""
    import torch

    if (device != "auto" and not device.startswith("cuda")) or not torch.cuda.is_available():
        return "cpu"
    try:
        properties = torch.cuda.get_device_properties(None if device == "auto" else device)
    except (RuntimeError, AssertionError, ValueError):
        return "cpu"  # there is no such device, as the check of ``device`` says
    return profile_of(properties.name, properties.total_memory / 2**30, bfloat16=properties.major >= 8)


def can_compile() -> bool:
    """Whether this machine can build the launchers of compiled kernels: a C compiler, and Python's headers."""
    named = os.environ.get("CC", "").split()
    found = shutil.which(named[0]) if named else shutil.which("gcc") or shutil.which("clang")
    return found is not None and Path(sysconfig.get_paths()["include"], "Python.h").is_file()


def training_settings(profile: str) -> dict[str, Any]:
    """Return the settings of a training run that a profile chooses, as nested tables; none for ``cpu``."""
    if profile == "cpu":
        return {}
    optimizer = {"autocast": "bfloat16", "microbatch_tokens": MICROBATCH.get(profile, 16_384), "recompute": True}
    return {"optimizer": {**optimizer, "layout": "packed"}, "hardware": {"tf32": True}}


def engine_settings(profile: str) -> dict[str, Any]:
    """Return the settings of vLLM beside a learner, in one process on one GPU."""
    if profile == "cpu":
        return {}
    limits = {"context_length": CONTEXT, "batched_tokens": BATCHED, "max_seqs": SEQUENCES}
    return {**limits, "eager": False, "memory_share": BESIDE}


def serving_settings(profile: str) -> dict[str, Any]:
    """Return the settings of a vLLM server that has a GPU to itself."""
    if profile == "cpu":
        return {}
    return engine_settings(profile) | {"dtype": "bfloat16", "memory_share": ALONE, "counts": True}
