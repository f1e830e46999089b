"""Updates of a model of 0.6B: trained tokens per second, model FLOPs utilization, and the largest memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from correctness import timed
from trial import Trial, random_model, random_rows, start

from turnwise.inference.attention import settle
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.objective import Objective

SHAPES = {"8k x 2": (2, 8192), "2k x 8": (8, 2048), "32k x 1": (1, 32_768)}
"""Rows of an update and tokens of each, the most telling first."""
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "autocast": {},
    "autocast, compiled": {"compiled": True},
    "autocast, recompute": {"recompute": True},
    "autocast, recompute, compiled": {"recompute": True, "compiled": True},
    "autocast, packed": {"layout": "packed"},
    "autocast, packed, sdpa": {"layout": "packed"},
    "autocast, packed, sdpa, compiled": {"layout": "packed", "compiled": True},
    "autocast, fused AdamW": {"kind": "adamw-fused"},
    "autocast, whole logits": {"logits": "whole"},
    "bf16 weights": {},
    "bf16 weights, compiled": {"compiled": True},
    "fp32": {},
}
"""Options of the learner; ``sdpa`` in a name is that kind of attention, which reads packed rows one by one."""
LESS = ("autocast", "autocast, compiled", "autocast, recompute, compiled", "autocast, packed", "autocast, packed, sdpa")
"""Variants of the shapes after the first."""
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
    """Time updates after two that warm up; the median counts."""
    count, length = (2, 128) if trial.plan else shape
    dtype = torch.bfloat16 if name.startswith("bf16 weights") else torch.float32
    model = random_model(plan=trial.plan, device=trial.device).to(dtype)
    if "sdpa" in name:
        settle(model, "sdpa")
    options: dict[str, Any] = {"microbatch_tokens": max(16_384, length), **VARIANTS[name]}
    if name.startswith("autocast"):
        options["autocast"] = "bfloat16"
    learner = Learner(model, OptimizerConfig(**options))
    rows = random_rows(count, length, model.config.vocab_size)
    objective = Objective(ratio_level="token", clip=(0.8, 1.2))
    for _ in range(2):
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


def profiled(trial: Trial, name: str, **options: Any) -> dict[str, Any]:
    """Name the kernels that take most of an update at 8k x 2 under autocast."""
    count, length = (2, 128) if trial.plan else SHAPES["8k x 2"]
    model = random_model(plan=trial.plan, device=trial.device)
    learner = Learner(model, OptimizerConfig(microbatch_tokens=max(16_384, length), autocast="bfloat16", **options))
    rows, objective = (
        random_rows(count, length, model.config.vocab_size),
        Objective(ratio_level="token", clip=(0.8, 1.2)),
    )
    learner.step(rows, objective)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if trial.device == "cuda" else []
    with torch.profiler.profile(activities=kinds) as profile:
        learner.step(rows, objective)
    order = "self_device_time_total" if trial.device == "cuda" else "self_cpu_time_total"
    table = profile.key_averages().table(sort_by=order, row_limit=40, max_name_column_width=90)
    (trial.out / f"profile-{name}.txt").write_text(table, encoding="utf-8")
    return {"note": f"40 operations in profile-{name}.txt"}


def attention(trial: Trial, kernel: str) -> dict[str, Any]:
    """Time causal attention of one layer, forward and backward, by one of torch's kernels."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if trial.device == "cpu" and kernel != "chosen by torch":
        return {"skipped": True, "note": "on a GPU only"}
    count, length = (2, 128) if trial.plan else SHAPES["8k x 2"]
    heads, width = (4, 32) if trial.plan else (16, 128)
    shape = (count, heads, length, width)
    given = [torch.randn(shape, device=trial.device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    upstream = torch.randn(shape, device=trial.device, dtype=torch.bfloat16)
    kinds = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}

    def both() -> None:
        with sdpa_kernel(kinds[kernel]) if kernel in kinds else nullcontext():
            found = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True)
        torch.autograd.grad(found, given, upstream)

    for _ in range(3):
        both()
    seconds = timed(trial, both, 10)
    return {"milliseconds": 1e3 * seconds, "tflops": 7 * count * heads * length**2 * width / seconds / 1e12}


def main() -> None:
    """Run the grid, the shape and variant that matter most first."""
    trial = start("speed")
    for place, (label, shape) in enumerate(list(SHAPES.items())[: 1 if trial.plan else None]):
        for name in VARIANTS if not place else LESS:
            trial.check(f"update, {label}, {name}", partial(update, trial, name, shape))
        if not place:
            trial.check("profile", partial(profiled, trial, "plain"))
            trial.check("profile, compiled", partial(profiled, trial, "compiled", compiled=True))
            for kernel in ("chosen by torch", "flash", "cudnn"):
                trial.check(f"attention, {kernel}", partial(attention, trial, kernel))


if __name__ == "__main__":
    main()
