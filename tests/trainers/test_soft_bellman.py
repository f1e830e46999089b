"""The script of offline soft-Bellman learning: it plays nothing, learns from stored episodes, and resumes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.errors import ConfigError
from turnwise.trainers import soft_bellman
from turnwise.trainers.options import configured
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.offline import places
from turnwise.trainers.soft_bellman import SoftBellmanConfig

from . import small
from .test_resume import same, state


def running(out: Path, start: Path, **changes: Any) -> SoftBellmanConfig:
    settings: dict[str, Any] = {
        **small.SHARED,
        "out": str(out),
        "model": str(start / "model"),
        "steps": 3,
        "batch": 5,
        "algorithm": {"beta": 2.0},
        "values": {"warmup": 1, "minibatches": 1},
        "demonstrations": {"store": str(start / "demonstrations")},
        "checkpoint_every": 1,
        "eval": {"split": "train", "episodes": 2, "every": 0},
    }
    return SoftBellmanConfig.model_validate(settings | changes)


@pytest.mark.slow
def test_n_plus_m_steps_are_n_then_resume_then_m(tmp_path: Path, cloned: Path) -> None:
    result = soft_bellman.train(running(tmp_path / "straight", cloned))
    lines = [line for line in read_metrics(result.folder / "metrics.jsonl") if "residual" in line]
    assert [line["kl_ref"] for line in lines[:2]] == [0.0, 0.0], "the policy rests while the critic warms up"
    assert lines[2]["kl_ref"] != 0.0
    soft_bellman.train(running(tmp_path / "parts", cloned, steps=2))
    torch.manual_seed(5)  # whatever this process did meanwhile
    soft_bellman.train(running(tmp_path / "parts", cloned, resume=True))
    one, other = (state(tmp_path / name, "oreo") for name in ("straight", "parts"))
    assert one[0] == other[0]
    assert same(one[1][2]["kept"], other[1][2]["kept"]), "critic and reference"


def test_every_episode_is_drawn_once_per_epoch() -> None:
    drawn = [place for step in range(3) for place in places(6, 2, step=step, seed=1)]
    assert sorted(drawn) == list(range(6))
    assert drawn != [place for step in range(3, 6) for place in places(6, 2, step=step, seed=1)], "in another order"
    assert sorted(places(3, 8, step=4, seed=0)) == [0, 1, 2]


def test_the_reference_is_a_model_that_exists() -> None:
    with pytest.raises(ConfigError, match="'model' is missing"):
        configured("oreo", None, ["env=turnwise/Maze-v0"])
    config = configured("oreo", None, ["env=e", "model=m"])
    assert isinstance(config, SoftBellmanConfig)
    assert config.values.loss == "squared", "as in the paper"
