"""Corrections of the estimates by measurements: the lines of ``scripts/gpu-trial`` on a GPU of the same kind."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...inference.hardware import NAMES, Gpu
from .memory import GIB, memory_of
from .shapes import KNOWN
from .speed import learning_seconds
from .trials import LINES, trial_lines
from .workload import Passes, Sampler, Workload

SHAPE = re.compile(r"update, (?P<size>\d+)k x (?P<count>\d+), (?P<variant>.+)")
"""Name of a line that has the speed of an update of Qwen3-0.6B."""
KNOWN_WORDS = {"autocast", "recompute", "compiled", "packed", "sdpa", "fused AdamW", "fp32"}
"""Parts of a variant's name that the estimate knows, or that make no difference to it."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Measured values divided by estimates of the same updates.

    Args:
        seconds: factor of the seconds of learning.
        memory: factor of the memory of learning.
        updates: number of updates that were compared; 0 without a measurement.
        worst: the largest factor of the seconds of one of them.
        source: source of the measurements.
    """

    seconds: float = 1.0
    memory: float = 1.0
    updates: int = 0
    worst: float = 1.0
    source: str = ""

    def applied(self, seconds: Mapping[str, float]) -> dict[str, float]:
        """Return the seconds of a step with those of learning corrected."""
        return {name: each * (self.seconds if name in ("learn", "critic") else 1.0) for name, each in seconds.items()}


def calibration(folder: Path, gpu: Gpu) -> Calibration:
    """Compare the estimates with a trial.

    Args:
        folder: output folder of ``scripts/gpu-trial``.
        gpu: kind of GPU; lines of other kinds do not count.

    Raises:
        UsageError: there is no trial, or none of its updates ran on such a GPU.
    """
    seconds, memory = [], []
    for line, passes in _updates(folder, gpu):
        load = Workload("trial", gpu, 1, passes, NOTHING, 0)
        rate = passes.read / learning_seconds(passes, gpu, 1)
        seconds.append(math.log(rate / float(line["tokens_per_second"])))
        if _positive(line.get("peak_gib")):
            memory.append(math.log(float(line["peak_gib"]) * GIB / memory_of(load).peak))
    if not seconds:
        raise UsageError(
            f"{folder / LINES} has no update on a GPU of this kind ({gpu.title}): run scripts/gpu-trial there"
        )
    return Calibration(_mean(seconds), _mean(memory), len(seconds), math.exp(max(seconds)), str(folder))


NOTHING = Sampler("none", 0, 0.0, 0, 0, True, 0, 0)


def _mean(logarithms: list[float]) -> float:
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else 1.0


def _positive(value: Any) -> bool:
    """Return whether a value is a measurement: a finite number above 0."""
    return isinstance(value, int | float) and 0 < value < math.inf


def _updates(folder: Path, gpu: Gpu) -> Iterator[tuple[Mapping[str, Any], Passes]]:
    """Yield the lines of updates on such a GPU, each with what was computed."""
    lines = trial_lines(folder)
    word = gpu.title.partition(" ")[0]
    assert word in NAMES
    for line in lines:
        if not isinstance(line, dict):
            continue
        found = SHAPE.fullmatch(str(line.get("name", "")))
        if found is None or line.get("plan") or not re.search(rf"\b{word}\b", str(line.get("device", ""))):
            continue
        if not set(found["variant"].split(", ")) <= KNOWN_WORDS:
            continue  # an estimate of something else would be compared
        if _positive(line.get("tokens_per_second")) and int(found["size"]) and int(found["count"]):
            yield line, _passes(int(found["size"]) * 1024, int(found["count"]), found["variant"])


def _passes(length: int, count: int, variant: str) -> Passes:
    plain = Passes(KNOWN["qwen3-0.6b"], 4, None, False, False, False, max(16_384, length), length, count, 1.0, 0.0, 0.5)
    return replace(
        plain,
        autocast="autocast" in variant,
        recompute="recompute" in variant,
        packed="packed" in variant,
        compiled="compiled" in variant,
        width=4,
    )
