"""MLflow: a local SQLite file, or the tracking server of ``MLFLOW_TRACKING_URI``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ...errors import UsageError
from .tracker import TrackedRun, flat, plain

NAME = "A-Za-z0-9_. :/-"
"""Characters of MLflow's names."""
RUN = "turnwise.run"
"""Tag with the run's identifier, by which a resumed run finds itself."""
PARAMS, LONGEST = 100, 500
"""The most parameters in one request, and characters of one: what every version of MLflow accepts."""


class MLflow:
    """Logs to a run of MLflow; the settings of the run are its parameters."""

    def __init__(self, run: TrackedRun) -> None:
        if run.online and not os.environ.get("MLFLOW_TRACKING_URI"):
            raise UsageError("tracking.online needs the URL of your MLflow server in MLFLOW_TRACKING_URI")
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric: Any = Metric
        local = None if run.online else f"sqlite:///{run.path.resolve() / 'mlflow.db'}"
        self._client: Any = MlflowClient(tracking_uri=local)
        experiment = self._experiment(run)
        found = self._client.search_runs([experiment], filter_string=f"tags.`{RUN}` = '{run.id}'")
        if found:
            self._id = found[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        self._id = self._client.create_run(experiment, run_name=run.name, tags={RUN: run.id}).info.run_id
        params = [Param(plain(key, NAME), str(value)[:LONGEST]) for key, value in flat(run.config)]
        for start in range(0, len(params), PARAMS):
            self._client.log_batch(self._id, params=params[start : start + PARAMS])

    def _experiment(self, run: TrackedRun) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(run.project)
        if found is None:
            artifacts = None if run.online else (run.path.resolve() / "mlartifacts").as_uri()
            try:
                return str(self._client.create_experiment(run.project, artifact_location=artifacts))
            except MlflowException:  # another run that shares the folder was faster
                found = self._client.get_experiment_by_name(run.project)
                if found is None:
                    raise
        return str(found.experiment_id)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self._client.log_batch(
            self._id, metrics=[self._metric(plain(name, NAME), value, now, step) for name, value in numbers.items()]
        )

    def close(self) -> None:
        self._client.set_terminated(self._id)
