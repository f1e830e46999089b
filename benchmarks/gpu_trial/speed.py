"""Updates of a model of 0.6B: trained tokens per second, model FLOPs utilization, and the largest memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from trial import Trial, random_model, random_rows, start

from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.objective import Objective

SHAPES = {"8k x 2": (2, 8192), "2k x 8": (8, 2048), "32k x 1": (1, 32_768)}
"""Rows of an update and tokens of each, the most telling first."""
VARIANTS: Mapping[str, dict[str, Any]] = {
    "autocast": {"autocast": "bfloat16"},
    "autocast, recompute": {"autocast": "bfloat16", "recompute": True},
    "autocast, packed": {"autocast": "bfloat16", "layout": "packed"},
    "bf16 weights": {},
    "fp32": {},
}
PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0}
"""Dense bf16 TFLOP/s that the maker states."""
STEPS = 3


def flops(model: Any, lengths: list[int]) -> float:
    """Return the FLOPs of forward and backward: 6 per weight and token, and those of causal attention.

    Source: Kaplan et al., arXiv 2001.08361, with half of full attention where it is causal.
    """
    config = model.config
    weights = sum(parameter.numel() for parameter in model.parameters())
    attention = 6 * config.num_hidden_layers * config.num_attention_heads * config.head_dim
    return float(sum(6 * weights * length + attention * length * length for length in lengths))


def update(trial: Trial, name: str, shape: tuple[int, int]) -> dict[str, Any]:
    """Time updates after one that warms up; the median counts."""
    count, length = (2, 128) if trial.plan else shape
    dtype = torch.bfloat16 if name == "bf16 weights" else torch.float32
    model = random_model(plan=trial.plan).to(trial.device, dtype)
    learner = Learner(model, OptimizerConfig(microbatch_tokens=max(16_384, length), **VARIANTS[name]))
    rows = random_rows(count, length, model.config.vocab_size)
    objective = Objective(ratio_level="token", clip=(0.8, 1.2))
    learner.step(rows, objective)
    wait = torch.cuda.synchronize if trial.device == "cuda" else lambda: None
    if trial.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    taken = []
    for _ in range(STEPS):
        wait()
        began = time.perf_counter()
        learner.step(rows, objective)
        wait()
        taken.append(time.perf_counter() - began)
    seconds = statistics.median(taken)
    found: dict[str, Any] = {"tokens_per_second": count * length / seconds, "step_seconds": seconds}
    if trial.device == "cuda":
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        peak = next((value for key, value in PEAK_TFLOPS.items() if key in torch.cuda.get_device_name()), None)
        if peak:
            found["mfu"] = flops(model, [length] * count) / seconds / (peak * 1e12)
    return found


def profiled(trial: Trial) -> dict[str, Any]:
    """Name the kernels that take most of an update at 8k x 2 under autocast."""
    count, length = (2, 128) if trial.plan else SHAPES["8k x 2"]
    model = random_model(plan=trial.plan).to(trial.device)
    learner = Learner(model, OptimizerConfig(microbatch_tokens=max(16_384, length), autocast="bfloat16"))
    rows, objective = (
        random_rows(count, length, model.config.vocab_size),
        Objective(ratio_level="token", clip=(0.8, 1.2)),
    )
    learner.step(rows, objective)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if trial.device == "cuda" else []
    with torch.profiler.profile(activities=kinds) as profile:
        learner.step(rows, objective)
    order = "self_cuda_time_total" if trial.device == "cuda" else "self_cpu_time_total"
    table = profile.key_averages().table(sort_by=order, row_limit=25)
    (trial.out / "profile.txt").write_text(table, encoding="utf-8")
    return {"note": "25 kernels in profile.txt"}


def main() -> None:
    """Run the grid, the shape and variant that matter most first."""
    trial = start("speed")
    for place, (label, shape) in enumerate(list(SHAPES.items())[: 1 if trial.plan else None]):
        for name in VARIANTS:
            trial.check(f"update, {label}, {name}", partial(update, trial, name, shape))
        if not place:
            trial.check("profile", partial(profiled, trial))


if __name__ == "__main__":
    main()
