"""Weights & Biases: an offline run, which ``wandb sync`` uploads, or an online one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .tracker import TrackedRun


class WeightsAndBiases:
    """Logs to a run of wandb whose identifier survives a resume.

    The step is a number like the others: wandb's own never goes back, and after a resume it must.
    """

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        settings = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True)
        self._run: Any = wandb.init(
            project=run.project,
            name=run.name,
            id=run.id,
            resume="allow",
            dir=str(run.path),
            mode="online" if run.online else "offline",
            config=dict(run.config),
            settings=settings,
        )
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log({"step": step, **numbers})

    def close(self) -> None:
        self._run.finish()
