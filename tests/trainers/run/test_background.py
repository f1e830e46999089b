"""Checkpoints beside the training: slow disks, and runs that fail meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from turnwise.trainers import loop
from turnwise.trainers.learning.groups import Group
from turnwise.trainers.loop import LoopTrainer
from turnwise.trainers.run import checkpoint
from turnwise.trainers.run.metrics import Stopwatch
from turnwise.trainers.run.run_folder import RunFolder
from turnwise.trainers.run.training import train_with

from .. import small


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every checkpoint take longer than a step."""
    seal = checkpoint._seal

    def slowly(*args: Any) -> None:
        time.sleep(1.0)
        seal(*args)

    monkeypatch.setattr(checkpoint, "_seal", slowly)


def config(folder: Path, model: Path) -> loop.LoopConfig:
    return small.looping(folder, model, steps=3, checkpoint_in_background=True, eval={"episodes": 0})


@pytest.mark.slow
def test_a_checkpoint_that_is_slower_than_a_step_is_not_removed_by_the_next(
    cloned: Path, tmp_path: Path, slow_disk: None
) -> None:
    loop.train(config(tmp_path / "run", cloned / "model"))
    assert RunFolder(tmp_path / "run", "loop").checkpoints.latest().step == 3


@pytest.mark.slow
def test_a_run_that_fails_first_finishes_its_checkpoint(cloned: Path, tmp_path: Path, slow_disk: None) -> None:
    class Failing(LoopTrainer):
        async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
            if self.run.step == 1:
                raise ValueError("a bug")
            return await super().learn(groups, clock)

    with pytest.raises(ValueError, match="a bug"):
        train_with(Failing, config(tmp_path / "run", cloned / "model"))
    assert RunFolder(tmp_path / "run", "loop").checkpoints.latest().step == 1
