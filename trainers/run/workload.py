"""The numbers of a configured run that its memory and speed follow from, and the refusal of one that cannot fit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch

from ...errors import UsageError
from ...inference.hardware import ALONE, BESIDE, CONTEXT, GPUS, SEQUENCES, Gpu
from ..critics.token_values import ValuesConfig
from ..critics.utterance import CriticConfig
from ..learning.parallel import processes
from ..planning.estimate import change_that_fits
from ..planning.memory import GIB, MOMENTS, memory_of
from ..planning.shapes import ModelShape, shape_of
from ..planning.workload import Passes, Sampler, SamplerKind, Workload
from .settings import TrainConfig

ROW_TOKENS = 8192
"""Assumed tokens of a row whose context is not limited. The real number is known after play only."""
WHOLE = ("native", "ipc")
"""Transfers that send all weights also where adapters are trained."""
SAMPLED = 0.5
"""Assumed share of a row that the policy sampled."""


def workload(
    config: TrainConfig, shape: ModelShape, gpu: Gpu, gpus: int, *, row_tokens: int | None = None, name: str = ""
) -> Workload:
    """Return the workload of a run.

    Args:
        config: settings of the run.
        shape: shape of its model.
        gpu: kind of the GPUs.
        gpus: number of GPUs, with those of servers.
        row_tokens: tokens of a row (default: from ``agent.context``, at most 8,192).
        name: name for people.

    Raises:
        UsageError: the arithmetic does not know the script, or its run cannot use so many GPUs.
    """
    row = min(row_tokens or _row_tokens(config), shape.positions)
    episodes, learned, epochs = _sizes(config)
    policy = Passes(
        shape,
        width=2 if config.dtype == "bfloat16" else 4,
        rank=None if config.lora is None else config.lora.rank,
        autocast=config.optimizer.autocast is not None,
        recompute=config.optimizer.recompute,
        packed=config.optimizer.layout == "packed",
        microbatch_tokens=config.optimizer.microbatch_tokens,
        row_tokens=row,
        rows=learned,
        learned=epochs,
        scored=1.0,
        judged=SAMPLED,
        tf32=config.hardware.tf32,
        logits=config.optimizer.logits,
        compiled=config.optimizer.compiled,
    )
    server, kl = config.server, getattr(getattr(config, "loss", None), "kl", None)
    load = Workload(
        name or config.out,
        gpu,
        gpus,
        policy,
        _sampler(config, episodes, row, gpus),
        episodes,
        *_critic(config, policy),
        reference=bool(getattr(kl, "coef", 0)),
        sent=2 if server is not None and "bfloat16" in (server.dtype, config.dtype) else 4,
        whole=config.lora is None or server is None or server.engine is not None or server.transfer in WHOLE,
        by_nccl=server is not None and (server.nccl is not None or server.transfer == "ipc"),
        transfers=int(getattr(config, "actor_steps", 1)),
        alone=_alone(config) != "",
        steps=config.steps,
        replicas=config.parallel.replicas,
        moments=2 if config.optimizer.kind == "adamw-8bit" else MOMENTS,
        fused=config.optimizer.kind == "adamw-fused",
        offload=config.parallel.offload,
    )
    if load.alone and load.learners > 1:
        raise UsageError(f"{_alone(config)}, and here {load.learners} GPUs would learn")
    return load


def refuse_too_large(config: TrainConfig) -> None:
    """Refuse a run whose weights, optimizer and gradients alone exceed the GPU's memory, before anything is loaded.

    Raises:
        UsageError: they do; the message has the smallest change that fits.
    """
    model = getattr(config, "model", None)
    if not config.device.startswith("cuda") or not isinstance(model, str):
        return
    try:
        shape = shape_of(model)
        replicas = 0 if config.server is None else len(config.server.urls)
        load = workload(config, shape, _here(config), processes() + replicas)
    except UsageError:
        return  # another architecture or script: try it
    if (memory := memory_of(load)).least > memory.room:
        raise UsageError(too_large(load, model))


def too_large(load: Workload, model: str) -> str:
    """Return in one line that a workload does not fit, and the smallest change with which it does."""
    memory = memory_of(load)
    needs = f"{model} needs {memory.peak / GIB:,.0f} GiB on each GPU that learns"
    change = change_that_fits(load)
    if change is None:
        cure = "no setting that plan knows makes it fit: take a smaller model, shorter rows or a larger GPU"
    else:
        cure = f"the smallest change that fits: {change[0]} ({memory_of(change[1]).peak / GIB:,.0f} GiB)"
    return f"{needs}, and {load.gpu.title} has {memory.room / GIB:,.0f}; {cure}"


def _alone(config: TrainConfig) -> str:
    """Return why only one process can learn; "" if several can."""
    plan = config.plan()
    if not plan.many_processes:
        return f"{plan.algorithm} learns in one process"
    engine = config.server is not None and config.server.engine is not None
    return "server.engine is for one process (name servers in server.urls instead)" if engine else ""


def _here(config: TrainConfig) -> Gpu:
    """Return the GPU of this machine, with the memory that the driver reports."""
    properties = torch.cuda.get_device_properties(config.device)
    known = GPUS.get(config.hardware.profile, GPUS["h100"])
    return Gpu(properties.name, properties.total_memory / GIB, known.tflops, known.bandwidth, known.link)


def _row_tokens(config: TrainConfig) -> int:
    kept = re.match(r"(?:last|short):(\d+)", config.agent.context)
    if kept is None:
        return ROW_TOKENS
    return min(ROW_TOKENS, 2 * (int(kept[1]) + 1) * config.agent.max_tokens)  # actions, and as long observations


def _number(config: TrainConfig, name: str) -> int:
    """Return a setting, or 0 if the script does not have it."""
    return int(getattr(config, name, 0))


def _sizes(config: TrainConfig) -> tuple[int, int, float]:
    """Return the episodes of a step, the rows that the policy learns from, and how often.

    Raises:
        UsageError: the script is another one.
    """
    if hasattr(config, "episodes_per_step"):  # ArCHer
        return _number(config, "episodes_per_step"), _number(config, "actor_steps") * _number(config, "batch"), 1.0
    groups, attempts = _number(config, "tasks_per_step"), _number(config, "group_size")
    if groups and attempts:
        return groups * attempts, groups * attempts, float(_number(config, "epochs"))
    if hasattr(config, "batch"):  # from demonstrations
        return 0, _number(config, "batch"), 1.0
    raise UsageError(f"{type(config).__name__} has no steps that the arithmetic knows")


def _critic(config: TrainConfig, policy: Passes) -> tuple[Passes | None, int]:
    """Return the critic of a run and its slow copies, if it is as large as the policy."""
    rule = getattr(config, "algorithm", None)
    values = getattr(config, "values", None)
    wanted = getattr(rule, "needs_values", False) or getattr(config, "baseline", "none") == "token"
    own: Any = {"judged": 0.0, "width": 4, "rank": None}
    if wanted and isinstance(values, ValuesConfig) and values.init == "policy":
        read = _with(policy, own, values.microbatch_tokens, policy.rows, float(values.epochs))
        return read, 0
    critic = getattr(config, "critic_model", None)
    if not isinstance(critic, CriticConfig) or critic.encoder.kind not in ("copy", "shared"):
        return None, 0
    rows = _number(config, "critic_steps") * _number(config, "batch")
    own |= {
        "packed": False,
        "compiled": False,
        "masked": critic.encoder.kind == "copy",
    }  # the utterances of a state branch from one prompt
    if critic.encoder.kind == "shared":
        own |= {"width": policy.width, "rank": critic.encoder.adapter.rank, "recompute": False}
    return _with(policy, own, critic.optimizer.microbatch_tokens, rows, 1.0, scored=2.0), 1


def _with(policy: Passes, own: Any, tokens: int, rows: int, learned: float, scored: float = 1.0) -> Passes:
    """Return the passes of a critic, with as long rows as the policy's."""
    return replace(policy, **own, microbatch_tokens=tokens, rows=rows, learned=learned, scored=scored)


def _sampler(config: TrainConfig, episodes: int, row: int, gpus: int) -> Sampler:
    """Return how episodes and, in ArCHer, fresh utterances are sampled."""
    sampled = int(episodes * row * SAMPLED)
    if hasattr(config, "episodes_per_step"):
        fresh = (_number(config, "critic_steps") + _number(config, "actor_steps")) * _number(config, "batch")
        sampled += fresh * config.agent.max_tokens
    prompted = episodes * row - int(episodes * row * SAMPLED)
    kind: SamplerKind = "model"
    server = config.server
    if not episodes:
        kind = "none"
    elif server is not None:
        kind = "servers" if server.urls else "engine"
    elif getattr(getattr(config, "overlap", None), "enabled", False) or gpus > 1:
        kind = "copy"
    rows, context, share, eager, replicas = min(config.agent.max_batch, config.episodes.concurrency), row, 0.0, True, 0
    if kind in ("engine", "servers") and server is not None:
        rows, context, replicas, eager = config.episodes.concurrency, CONTEXT, max(1, len(server.urls)), False
        share = ALONE if kind == "servers" and gpus > replicas else BESIDE
        rows = min(rows, SEQUENCES * replicas)
        if server.engine is not None:
            share = server.engine.memory_share or 0.1
            rows, eager = min(rows, server.engine.max_seqs), server.engine.eager
            context = server.engine.context_length or context
    else:  # without a cache of prefixes, every turn reads its whole prompt again
        turns = max(1, int(row * SAMPLED / config.agent.max_tokens))
        prompted = episodes * turns * row // 2
    sleeps = server is not None and server.sleep > 0
    return Sampler(kind, replicas, share, rows, context, eager, sampled, prompted, sleeps)
