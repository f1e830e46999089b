"""Messages before the first step of a run: how the model acts, where it learns, and settings that harm real models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...agents.chat import ChatAgent
from ...envs.tools import Tool
from ...tasks.spec import Split
from ..learning.objective import LossConfig
from ..learning.rates import LARGE
from .hardware import profile_remark
from .settings import TrainConfig, trained_settings

SAMPLED_HERE = 200_000_000
"""Weights up to which sampling without vLLM is bearable on a GPU."""
COARSE = 2e-3
"""Difference of a segment's mean log-probability between two passes in bfloat16, at most, as measured."""
FINE_TUNING_LR = 1e-5
"""The largest learning rate at which the full weights of a pretrained model usually survive reinforcement learning."""


def openings(
    config: TrainConfig, model: Any, agent: ChatAgent, tools: Sequence[Tool], correction: str = "none"
) -> Iterator[str]:
    """Yield one line for each fact that a user should know before a run costs anything.

    Args:
        config: settings of the run.
        model: model to train.
        agent: agent that acts.
        tools: tools of the environment.
        correction: correction of the loss for a sampler that differs from the learner.
    """
    if config.device != "cpu":
        name = torch.cuda.get_device_name(config.device) if config.device.startswith("cuda") else config.device
        yield f"training on {config.device} ({name})"
    yield from filter(None, [profile_remark(config.hardware)])
    departures = config.agent.departures(trained_settings(getattr(config, "model", None)))
    yield from filter(None, [departures])
    yield from agent.remarks(tools)
    if correction == "tis":
        yield "tokens are weighted by π_old/π_sampler in the loss, since the sampler may differ (is_mode = tis)"
    weights = sum(each.numel() for each in model.parameters())
    warnings = [harmful_rate(config, weights), slow_sampler(config, weights), narrow_bounds(config)]
    yield from filter(None, [held_out_split(config), *warnings])


def held_out_split(config: TrainConfig) -> str:
    """Return a warning about a run that trains on held-out tasks; "" if it trains on those of ``train``."""
    if config.split is Split.TRAIN:
        return ""
    return (
        f"warning: split = {config.split} trains on held-out tasks: this model's success in {config.split} will not "
        "measure generalization; omit split to train on train"
    )


def harmful_rate(config: TrainConfig, parameters: int) -> str:
    """Return a warning about a learning rate that a large model seldom survives; "" if it fits.

    ``refuse_high_rate`` refuses much higher ones.

    Args:
        config: settings of the run.
        parameters: number of weights of the model.
    """
    rate = config.optimizer.lr
    if config.lora is not None or parameters <= LARGE or rate <= FINE_TUNING_LR:
        return ""
    return (
        f"warning: optimizer.lr = {rate:g} is high for the full weights of a model of {parameters / 1e9:.1f} billion: "
        "reinforcement learning wants about 1e-6, cloning 1e-5; or train adapters (lora.rank=16 optimizer.lr=5e-5)"
    )


def narrow_bounds(config: TrainConfig) -> str:
    """Return a warning about bounds of a ratio that are as narrow as 16 bits are coarse; "" if they are not.

    A segment's mean log-probability differs by some 1e-3 between two passes in which it stands among other rows.
    GSPO's bounds then clip a quarter of the tokens before any update.
    """
    loss = getattr(config, "loss", None)
    sixteen = config.optimizer.autocast is not None or config.dtype != "float32"
    if not isinstance(loss, LossConfig) or not loss.length_normalized or not sixteen or config.optimizer.head:
        return ""
    narrowest = min(loss.clip_low, loss.clip_high)
    if narrowest >= COARSE:
        return ""
    return (
        f"warning: loss.length_normalized with a bound of {narrowest:g} clips the rounding of 16 bits, before any "
        "update (clip_low, clip_high); set optimizer.head = float32, which takes most of it away"
    )


def slow_sampler(config: TrainConfig, parameters: int) -> str:
    """Return a warning about sampling a large model on a GPU without vLLM; "" if it does not apply.

    Not a refusal: the results are right, and ``turnwise plan`` refuses what does not fit.

    Args:
        config: settings of the run.
        parameters: number of weights of the model.
    """
    if config.server is not None or not config.device.startswith("cuda") or parameters <= SAMPLED_HERE:
        return ""
    return (
        f"warning: a model of {parameters / 1e9:.1f} billion weights samples in the learner's process, whose step is "
        "about 25 ms for at most agent.max_batch rows and which reads every prompt from its beginning: expect several "
        "times the seconds of vLLM. Set [server.engine], or server.urls"
    )
