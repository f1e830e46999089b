"""Settings of trackers: the programs that show the numbers of runs side by side."""

from __future__ import annotations

from typing import Literal

import pydantic

from ...config import Config

RENAMED = {"tensorboard": "tracking.to"}
"""Former names of settings in scripts with ``[tracking]``, and of their values."""
RENAMED_VALUES = {"tracking.to": {True: ["tensorboard"], False: []}}

TrackerName = Literal["tensorboard", "wandb", "trackio", "mlflow", "otel"]


class TrackingConfig(Config):
    """Trackers that receive the numbers of ``metrics.jsonl``, each in a process of its own.

    A tracker that is missing, fails or hangs is left out with one warning, and the run goes on unchanged.
    """

    to: list[TrackerName] = pydantic.Field(default=["tensorboard"])
    """Any of ``tensorboard``, ``wandb``, ``trackio``, ``mlflow`` and ``otel`` (OpenTelemetry); ``[]`` for none."""
    online: bool = False
    """Send numbers to the servers that the trackers' environment variables name (default: write local files only)."""
    project: str = pydantic.Field(default="turnwise", min_length=1)
    """Project of the run: an experiment of MLflow, the service name of OpenTelemetry."""
    name: str | None = None
    """Name of the run (default: that of its folder)."""
    folder: str | None = None
    """Folder of the local files; several runs may share it (default: ``tracking/`` in the run's folder). TensorBoard's
    are always in ``tensorboard/``."""
    patience: float = pydantic.Field(default=60.0, gt=0)
    """Seconds that all trackers together may take to finish after the last step."""

    @pydantic.field_validator("to")
    @classmethod
    def _each_once(cls, to: list[TrackerName]) -> list[TrackerName]:
        if twice := sorted({name for name in to if to.count(name) > 1}):
            raise ValueError(f"names {', '.join(twice)} twice")
        return to
