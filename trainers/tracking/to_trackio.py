"""Trackio: a local SQLite file, or a Space on Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import UsageError
from .tracker import TrackedRun


class Trackio:
    """Logs to a run of trackio. Trackio finds a run by its name, so the name ends in the run's identifier."""

    def __init__(self, run: TrackedRun) -> None:
        os.environ["TRACKIO_DIR"] = str(run.path)  # trackio reads it when it is imported
        if run.online and not os.environ.get("TRACKIO_SPACE_ID"):
            raise UsageError("tracking.online needs a Space of yours in TRACKIO_SPACE_ID")
        import trackio

        quiet: dict[str, Any] = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
        space = os.environ.get("TRACKIO_SPACE_ID") if run.online else None
        self._run: Any = trackio.init(
            run.project, f"{run.name}-{run.id}", config=dict(run.config), resume="allow", space_id=space, **quiet
        )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()
