"""What a KL penalty is measured from, in a run."""

from __future__ import annotations

import torch

from ..learning.kl import KLConfig
from ..learning.reference import Reference
from .session import TrainingRun


def reference_of(run: TrainingRun, penalty: KLConfig, start: str) -> Reference | None:
    """The frozen policy that a penalty names, kept in the run's checkpoints; ``None`` where nothing is penalised.

    Args:
        run: opened.
        penalty: its settings.
        start: the model folder that stands for it when the penalty names none.

    Raises:
        ModelError: there is no such model, or it has another vocabulary.
    """
    if not penalty.coef:
        return None
    config = run.config
    reference = Reference.load(
        penalty.reference or start,
        run.tokenizer,
        dtype=getattr(torch, config.dtype),
        device=config.device,
        temperature=config.agent.temperature,
        microbatch_tokens=config.optimizer.microbatch_tokens,
    )
    run.keep("reference", reference)
    return reference
