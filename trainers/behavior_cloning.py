"""Behavior cloning: maximize the likelihood of demonstrated actions. With a filter on returns, filtered BC (%BC).

Demonstrations are stored episodes, or episodes of scripted agents of mixed skill, as in LMRL-Gym's datasets
(arXiv 2311.18232). Without a model to start from, a nano model and its tokenizer are built from them. Run it with
``turnwise train bc --config configs/bc-maze.toml`` or ``python -m turnwise.trainers.behavior_cloning env=…``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .collect.demonstrations import readable
from .learning.learner import Update
from .learning.rows import Rows
from .run.conclusion import RunResult
from .run.offline import OfflineConfig, OfflineTrainer, as_said
from .run.run import Run
from .run.settings import Plan
from .run.training import train_with
from .script import script


class CloningConfig(OfflineConfig):
    """Settings of behavior cloning."""

    out: str = "runs/bc"
    """The run's folder."""

    def plan(self) -> Plan:
        return Plan("bc", self.optimizer.until(self.steps))


class CloningTrainer(OfflineTrainer[CloningConfig]):
    """Behavior cloning's part in the training loop: the likelihood of demonstrated actions."""

    def __init__(self, config: CloningConfig, run: Run) -> None:
        episodes, left_out = readable(as_said(run.start.demonstrations, config.demonstrations, run))
        super().__init__(config, run, episodes)
        turns = sum(len(episode.turns) for episode in episodes)
        if left_out:
            self.note = f"{left_out} of {turns} demonstrated actions could not be read, and were left out"

    def update(self, rows: Rows) -> Update:
        return self.run.learner.clone(rows)


def train(config: CloningConfig) -> RunResult:
    """Run behavior cloning to its last step: see ``train_with``."""
    return train_with(CloningTrainer, config)


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.behavior_cloning``."""
    return script(CloningConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
