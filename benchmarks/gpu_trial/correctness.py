"""Whether the learner computes the same on this device as on a CPU, and how far rounding moves log-probabilities."""

from __future__ import annotations

import asyncio
import copy
import platform
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from trial import Trial, commit, random_model, random_rows, start

from turnwise.inference.attention import settle
from turnwise.inference.policy import Sampling
from turnwise.inference.transformers_policy import TransformersPolicy
from turnwise.trainers.critics.backbone_copy import backbone_copy
from turnwise.trainers.critics.token_values import TokenValues, ValuesConfig
from turnwise.trainers.learning.head_logprobs import head_logp
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.objective import Objective
from turnwise.trainers.learning.parallel_config import ParallelConfig
from turnwise.trainers.learning.reference import Reference
from turnwise.trainers.learning.sharding import shard_blocks
from turnwise.trainers.learning.token_logprobs import chosen_logp

EXACT, ROUNDED = 1e-4, 2e-2
"""Largest relative difference from the CPU's 32 bits: in 32 bits, and where matrix products have 16."""
VARIANTS: Mapping[str, tuple[dict[str, Any], float]] = {
    "fp32": ({}, EXACT),
    "fp32, small micro-batches": ({"microbatch_tokens": 64}, EXACT),
    "fp32, recompute": ({"recompute": True}, EXACT),
    "fp32, packed": ({"layout": "packed"}, EXACT),
    "autocast": ({"autocast": "bfloat16"}, ROUNDED),
    "autocast, recompute": ({"autocast": "bfloat16", "recompute": True}, ROUNDED),
    "autocast, packed": ({"autocast": "bfloat16", "layout": "packed"}, ROUNDED),
    "autocast, packed, flash": ({"autocast": "bfloat16", "layout": "packed"}, ROUNDED),
    "autocast, logits in chunks": ({"autocast": "bfloat16", "logits": "chunked"}, ROUNDED),
    "autocast, compiled": ({"autocast": "bfloat16", "compiled": True}, ROUNDED),
    "fp32, compiled, recompute": ({"compiled": True, "recompute": True}, EXACT),
    "fp32, fused AdamW": ({"kind": "adamw-fused"}, EXACT),
}
"""Options of the learner and the largest difference; ``flash`` in a name is that kind of attention, on a GPU."""


def about(trial: Trial) -> dict[str, Any]:
    """Describe the machine, and time a large matrix product."""
    size, dtype = (256, torch.float32) if trial.plan else (8192, torch.bfloat16)
    one, other = (torch.randn(size, size, device=trial.device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        one @ other
    seconds = timed(trial, lambda: one @ other, 10)
    found: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__, "commit": commit()}
    if trial.device == "cuda":
        found |= {"cuda": torch.version.cuda, "gib": torch.cuda.get_device_properties(0).total_memory / 2**30}
    return found | {"tflops": 2 * size**3 / seconds / 1e12}


def timed(trial: Trial, act: Callable[[], object], times: int) -> float:
    """Return seconds per call."""
    wait = torch.cuda.synchronize if trial.device == "cuda" else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(times):
        act()
    wait()
    return (time.perf_counter() - began) / times


def token_logprobs(trial: Trial, dtype: torch.dtype, limit: float) -> dict[str, Any]:
    """Compare log-probabilities, entropies and their gradient with 64 bits, at a real vocabulary."""
    vocabulary, places = (512, 16) if trial.plan else (151_936, 512)
    logits = (4 * torch.randn(places, vocabulary, device=trial.device)).to(dtype)
    ids, place = torch.randint(vocabulary, (places,), device=trial.device), torch.arange(places, device=trial.device)
    exact = logits.double().requires_grad_()
    wanted = exact.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
    wanted.sum().backward()
    mine = logits.clone().requires_grad_()
    logp, _ = chosen_logp(mine, place, ids, 1.0)
    logp.sum().backward()
    assert exact.grad is not None
    assert mine.grad is not None
    value = float(((logp - wanted) / wanted).abs().max())
    slope = float((mine.grad.double() - exact.grad).norm() / exact.grad.norm())
    return {"ok": max(value, slope) < limit, "value": value, "gradient": slope, "limit": limit}


def output_layer(trial: Trial, dtype: torch.dtype, limit: float) -> dict[str, Any]:
    """Compare log-probabilities and entropies from hidden states, and both gradients, with 64 bits."""
    vocabulary, width, places = (9000, 32, 16) if trial.plan else (151_936, 1024, 2048)
    hidden = torch.randn(places, width, device=trial.device, dtype=dtype)
    weight = (4 * torch.randn(vocabulary, width, device=trial.device) / width**0.5).to(dtype)
    ids = torch.randint(vocabulary, (places,), device=trial.device)
    slopes = torch.randn(2, places, device=trial.device)

    exact = [each.double().requires_grad_() for each in (hidden, weight)]
    logp = (exact[0] @ exact[1].T / 0.8).log_softmax(-1)
    wanted = logp.gather(-1, ids[:, None])[:, 0], -(logp.exp() * logp).sum(-1)
    (slopes[0] * wanted[0] + 0.1 * slopes[1] * wanted[1]).sum().backward()
    del logp
    mine = [each.clone().requires_grad_() for each in (hidden, weight)]
    found = head_logp(mine[0], mine[1], ids, 0.8, entropy_gradient=True)
    (slopes[0] * found[0] + 0.1 * slopes[1] * found[1]).sum().backward()
    gaps = {f"value_{n}": relative(now, then) for n, now, then in zip("le", found, wanted, strict=True)}
    gaps |= {f"gradient_{n}": relative(now.grad, then.grad) for n, now, then in zip("hw", mine, exact, strict=True)}
    return {"ok": max(gaps.values()) < limit, **gaps, "limit": limit}


def relative(found: Any, wanted: Any) -> float:
    """Return the norm of a difference, divided by that of what is wanted."""
    return float((found.detach().double() - wanted.detach()).norm() / wanted.detach().norm())


def sharded(trial: Trial, wanted: tuple[float, float]) -> dict[str, Any]:
    """Make an update by FSDP2 in a group of one process, over NCCL on a GPU."""
    dist.init_process_group(
        "gloo" if trial.device == "cpu" else "cpu:gloo,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1
    )
    try:
        model = random_model(plan=True).to(trial.device)
        shard_blocks(model, ParallelConfig(), size=1, device=trial.device, empty=[False])
        found = one_step(model, {})
    finally:
        dist.destroy_process_group()
    return against(wanted, found, EXACT)


def step(
    trial: Trial, name: str, options: Mapping[str, Any], limit: float, wanted: tuple[float, float]
) -> dict[str, Any]:
    """Compare the loss and the gradient's norm of one update with those of the CPU."""
    model = random_model(plan=True).to(trial.device)
    if "flash" in name and trial.device == "cuda":
        settle(model, "flash")
    return against(wanted, one_step(model, options), limit)


def against(wanted: tuple[float, float], found: tuple[float, float], limit: float) -> dict[str, Any]:
    """Compare a loss and the norm of a gradient with those of the CPU."""
    gaps = [abs(now - then) / max(abs(then), 1e-3) for now, then in zip(found, wanted, strict=True)]
    return {"ok": max(gaps) < limit, "loss": gaps[0], "grad_norm": gaps[1], "limit": limit}


def one_step(model: Any, options: Mapping[str, Any]) -> tuple[float, float]:
    """Make one update of a tiny model, and return its loss and the norm of its gradient."""
    learner = Learner(model, OptimizerConfig(**{"microbatch_tokens": 4096, **options}))
    judge = Learner(random_model(plan=True), OptimizerConfig())
    rows = judge.recompute_old(random_rows(4, 96, model.config.vocab_size))
    noise = torch.randn(len(rows), generator=torch.Generator().manual_seed(5))
    rows = rows.with_logp_old(rows.logp_old + 0.15 * noise)  # so that ratios differ from 1, and some are clipped
    metrics = learner.step(rows, Objective(ratio_level="token", clip=(0.8, 1.2))).metrics
    return metrics["loss"], metrics["grad_norm"]


def lora(trial: Trial) -> dict[str, Any]:
    """Make one update of adapters only."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(random_model(plan=True), LoraConfig(r=4, target_modules="all-linear")).to(trial.device)
    learner = Learner(model, OptimizerConfig(autocast="bfloat16"))
    rows = random_rows(4, 96, model.config.vocab_size)
    update = learner.step(rows, Objective(ratio_level="token", clip=(0.8, 1.2)))
    return {"ok": update.stepped, "trainable": learner.trainable, "grad_norm": update.metrics["grad_norm"]}


def resumed(trial: Trial) -> dict[str, Any]:
    """Make two updates in a row, and the second again from the state after the first."""
    rows = random_rows(4, 96, 512)
    objective, options = Objective(ratio_level="token", clip=(0.8, 1.2)), OptimizerConfig()
    first = Learner(random_model(plan=True).to(trial.device), options)
    first.step(rows, objective)
    kept = copy.deepcopy((first.model.state_dict(), first.state_dict()))
    wanted = first.step(rows, objective).metrics["loss"]
    again = Learner(random_model(plan=True, seed=1).to(trial.device), options)
    again.model.load_state_dict(kept[0])
    again.load_state_dict(kept[1])
    found = again.step(rows, objective).metrics["loss"]
    return {"ok": abs(found - wanted) < 1e-6 * max(1.0, abs(wanted)), "difference": abs(found - wanted)}


def critic(trial: Trial) -> dict[str, Any]:
    """Fit values of tokens here and on the CPU."""
    found = []
    for device in ("cpu", trial.device):
        backbone = backbone_copy(random_model(plan=True).to(device)).float()
        values = TokenValues(backbone, int(backbone.config.hidden_size), ValuesConfig())
        rows = random_rows(4, 96, 512)
        values.fit(rows, rows.advantage)
        found.append(values.values(rows))
    gap = float((found[1] - found[0]).abs().max())
    return {"ok": gap < 1e-3, "value": gap}


def reference(trial: Trial) -> dict[str, Any]:
    """Score rows by a frozen copy here and on the CPU; under autocast, it is at no distance from the learner."""
    rows = random_rows(4, 96, 512)
    cpu, here = (Reference.copy_of(random_model(plan=True).to(device)) for device in ("cpu", trial.device))
    gap = float((here.scored(rows).logp_ref - cpu.scored(rows).logp_ref).abs().max())
    learner = Learner(random_model(plan=True).to(trial.device), OptimizerConfig(autocast="bfloat16"))
    same = Reference.copy_of(learner.model, learner.scorer)
    distance = float((same.scored(rows).logp_ref - learner.logprobs(rows)).abs().max())
    return {"ok": gap < 1e-3 and distance == 0, "value": gap, "distance_autocast": distance}


def sampler_gap(trial: Trial) -> dict[str, Any]:
    """Sample from a model of real size in 16 bits, and score the same tokens as the learner does.

    The distribution of the gap is the noise floor of the canary; no limit is set here.
    """
    precision = torch.float32 if trial.plan else torch.bfloat16
    model = random_model(plan=trial.plan, device=trial.device).to(precision)
    policy = TransformersPolicy(model, context_length=1024)
    count, size = (4, 8) if trial.plan else (16, 64)

    async def play() -> list[Any]:
        prompts = torch.randint(1, model.config.vocab_size, (count, 256), generator=torch.Generator().manual_seed(3))
        asked = (
            policy.generate(prompt, Sampling(max_tokens=size, seed=number, stop_ids=()))
            for number, prompt in enumerate(prompts.tolist())
        )
        return list(zip(prompts.tolist(), await asyncio.gather(*asked), strict=True))

    gaps = []
    for prompt, completion in asyncio.run(play()):
        ids = torch.tensor([[*prompt, *completion.token_ids]], device=trial.device)
        with torch.no_grad():
            logits = model.float()(ids).logits[0, len(prompt) - 1 : -1]
        model.to(precision)
        logp = logits.log_softmax(-1).gather(-1, ids[0, len(prompt) :, None])[:, 0].cpu()
        gaps.append((logp - torch.tensor(completion.logprobs)).abs())
    gap = torch.cat(gaps)
    quantiles = {f"p{q}": float(gap.quantile(q / 100)) for q in (50, 95, 99)}
    return {"mean": float(gap.mean()), **quantiles, "max": float(gap.max()), "tokens": gap.numel()}


def main() -> None:
    """Run the checks, the most telling first."""
    trial = start("correctness")
    trial.check("machine", partial(about, trial))
    trial.check("token log-probabilities, fp32", partial(token_logprobs, trial, torch.float32, 1e-5))
    trial.check("token log-probabilities, bf16", partial(token_logprobs, trial, torch.bfloat16, 1e-2))
    trial.check("output layer, fp32", partial(output_layer, trial, torch.float32, 1e-5))
    trial.check("output layer, bf16", partial(output_layer, trial, torch.bfloat16, 2e-2))
    wanted = one_step(random_model(plan=True), {})
    for name, (options, limit) in VARIANTS.items():
        trial.check(f"update, {name}", partial(step, trial, name, options, limit, wanted))
    trial.check("update, FSDP2", partial(sharded, trial, wanted))
    trial.check("update, LoRA", partial(lora, trial))
    trial.check("checkpoint and resume", partial(resumed, trial))
    trial.check("critic of tokens", partial(critic, trial))
    trial.check("reference", partial(reference, trial))
    trial.check("sampler against scorer", partial(sampler_gap, trial))


if __name__ == "__main__":
    main()
