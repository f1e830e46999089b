"""``Performance``: how well a step used the machine, and traces of chosen steps."""

from __future__ import annotations

import logging
import os
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from ...errors import UsageError
from ...inference.hardware import GPUS
from ...logs import as_json, tell
from ..learning.meter import Meter
from ..planning.flops import update_flops
from ..planning.shapes import ModelShape, shape_from
from .settings import TrainConfig

LOG = logging.getLogger(__name__)
PROFILES = "profiles"
"""Folder of the traces in a run's folder."""
GIB = 2**30
STATM = Path("/proc/self/statm")


class Performance:
    """Turns the counts of a meter into metrics: speed, utilization, padding and memory of the main process.

    Args:
        meter: counter of the learner's updates.
        device: device of the model.
        shape: shape of the model; ``None`` if the arithmetic does not know it, and then there is no utilization.
        adapters: whether only adapters are trained.
        tflops: peak of the device in TFLOP/s; ``None`` if it is not known.
        profile_steps: numbers of the steps to trace; the first step is 1.
        folder: folder of the traces.
    """

    def __init__(
        self,
        meter: Meter,
        device: torch.device,
        *,
        shape: ModelShape | None = None,
        adapters: bool = False,
        tflops: float | None = None,
        profile_steps: tuple[int, ...] = (),
        folder: Path = Path(),
    ) -> None:
        self.meter, self.device, self.shape = meter, device, shape
        self.adapters, self.tflops = adapters, tflops
        self.profile_steps, self.folder = frozenset(profile_steps), folder
        self._trace: tuple[int, torch.profiler.profile] | None = None

    @classmethod
    def of(cls, config: TrainConfig, model: Any, meter: Meter, folder: Path) -> Performance:
        """Return the performance meter of a run."""
        gpu = GPUS.get(config.hardware.profile) if config.device.startswith("cuda") else None
        try:
            shape = shape_from(model.config.to_dict(), "the model")
        except (UsageError, AttributeError):
            shape = None
        return cls(
            meter,
            next(model.parameters()).device,
            shape=shape,
            adapters=config.lora is not None,
            tflops=config.hardware.peak_tflops or (gpu.tflops if gpu is not None else None),
            profile_steps=tuple(config.profile_steps),
            folder=folder,
        )

    def metrics(self) -> dict[str, float]:
        """Return the numbers since the last call, at the end of a step."""
        self._end_trace()
        work = self.meter.take()
        found = memory(self.device)
        if not work.tokens or not work.seconds:
            return found
        found["perf/trained_tokens"] = float(work.tokens)
        found["perf/trained_tokens_per_second"] = work.tokens / work.seconds
        found["perf/padding"] = 1 - work.tokens / work.computed
        if self.shape is None:
            return found
        flops = update_flops(
            self.shape, tokens=work.tokens, sampled=work.sampled, squares=work.squares, adapters=self.adapters
        )
        found["perf/tflops"] = flops / work.seconds / 1e12
        if self.tflops is not None:
            found["perf/mfu"] = found["perf/tflops"] / self.tflops
        return found

    def begin(self, step: int) -> None:
        """Begin a step: trace it with torch's profiler until the next ``metrics`` if ``profile_steps`` names it.

        Args:
            step: number of the step, from 1.
        """
        if step not in self.profile_steps:
            return
        if as_json():
            # libkineto prints lines of its own, which are not JSON; no such level exists, so it prints none.
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        kinds = [torch.profiler.ProfilerActivity.CPU]
        kinds += [torch.profiler.ProfilerActivity.CUDA] if self.device.type == "cuda" else []
        self._trace = (step, torch.profiler.profile(activities=kinds))
        self._trace[1].start()

    def _end_trace(self) -> None:
        """Write the trace of the step, if it has one; a failure is only a warning."""
        if self._trace is None:
            return
        (step, profile), self._trace = self._trace, None
        profile.stop()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            profile.export_chrome_trace(str(self.folder / f"step-{step}.json.gz"))
        except (OSError, RuntimeError) as error:
            tell(LOG, "remark", f"warning: the trace of step {step} could not be written: {error}")


def memory(device: torch.device) -> dict[str, float]:
    """Return peaks of memory in GiB: of a GPU since the last call, of this process since its start."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    found = {"memory/rss_peak_gib": peak / GIB}
    if STATM.exists():
        found["memory/rss_gib"] = int(STATM.read_text().split()[1]) * resource.getpagesize() / GIB
    if device.type == "cuda":
        found["memory/gpu_peak_gib"] = torch.cuda.max_memory_allocated(device) / GIB
        found["memory/gpu_reserved_gib"] = torch.cuda.max_memory_reserved(device) / GIB
        torch.cuda.reset_peak_memory_stats(device)
    return found
