"""Behaviour cloning: maximise the likelihood of demonstrated actions. With a filter on returns, filtered BC (%BC).

Demonstrations are stored episodes, or played on the fly by scripted agents of mixed skill as LMRL-Gym's datasets were
(arXiv 2311.18232). Without a model to start from, a nano model and its tokenizer are built from them. Run it with
``turnwise train bc --config configs/bc-maze.toml`` or ``python -m turnwise.trainers.behaviour_cloning env=…``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from .collect.demonstrations import readable
from .learning.rows import pack
from .run.interrupts import interruptible
from .run.offline import OfflineConfig, as_said, demonstrations, first_model, fitting, learn_rows, scheduled
from .run.script import script
from .run.session import TrainingRun
from .run.settings import RunResult


class CloningConfig(OfflineConfig):
    """Settings of behaviour cloning."""

    out: str = "runs/bc"
    """The run's folder."""


def train(config: CloningConfig) -> RunResult:
    """Run behaviour cloning to its last step, or until Ctrl-C, which leaves a checkpoint to resume from.

    Raises:
        UsageError: a setting, the demonstrations, the model or the run's folder is not as it must be.
        DivergedError: a loss or gradient was not finite.
        KeyboardInterrupt: after Ctrl-C, once the checkpoint is written.
    """
    with TrainingRun(config, "bc") as run:
        return interruptible(_train(config, run))


async def _train(config: CloningConfig, run: TrainingRun) -> RunResult:
    checkpoint = run.begin()
    episodes = await demonstrations(config.demonstrations, run)
    model, tokenizer = run.load(checkpoint.model) if checkpoint else first_model(config, run, episodes)
    async with run.open(model, tokenizer, checkpoint, optimizer=scheduled(config)):
        episodes, left_out = readable(as_said(episodes, config.demonstrations, run))
        rows = fitting(pack(episodes), model.config.max_position_embeddings)
        result = await learn_rows(config, run, rows, run.learner.clone)
    if not left_out:
        return result
    turns = sum(len(episode.turns) for episode in episodes)
    note = f"{left_out} of {turns} demonstrated actions could not be read, and were left out"
    return replace(result, note="; ".join(filter(None, (note, result.note))))


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.behaviour_cloning``."""
    return script(CloningConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
