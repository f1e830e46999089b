"""The smallest training runs that do learn: one maze, a model of a tenth of a million weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turnwise.trainers import behaviour_cloning, loop
from turnwise.trainers.behaviour_cloning import CloningConfig
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.runs.setup import RunResult

ENV = "turnwise/MazeU-v0"
SHARED: dict[str, Any] = {
    "env": ENV,
    "agent": {"context": "last:1", "max_tokens": 4, "show_tools": False},
    "episodes": {"env_kwargs": {"max_turns": 12}},
    "threads": 1,
    "progress": False,
    "tensorboard": False,
}


def cloning(out: Path, **changes: Any) -> CloningConfig:
    settings: dict[str, Any] = {
        **SHARED,
        "out": str(out),
        "steps": 25,
        "batch": 32,
        "optimizer": {"lr": 3e-3},
        "nano": {"size": "0.1M", "layers": 1, "hidden": 32},
        "demonstrations": {"count": 12, "skills": [0.5]},
        "eval": {"split": "train", "episodes": 4, "every": 0},
    }
    return CloningConfig.model_validate(settings | changes)


def looping(out: Path, model: Path, **changes: Any) -> LoopConfig:
    settings: dict[str, Any] = {
        **SHARED,
        "out": str(out),
        "model": str(model),
        "steps": 6,
        "tasks": 2,
        "k": 3,
        "minibatch": 4,
        "checkpoint_every": 1,
        "eval": {"split": "train", "episodes": 4, "every": 3},
    }
    return LoopConfig.model_validate(settings | changes)


def clone(config: CloningConfig) -> RunResult:
    return behaviour_cloning.train(config)


def run(config: LoopConfig) -> RunResult:
    return loop.train(config)
