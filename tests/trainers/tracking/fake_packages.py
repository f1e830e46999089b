"""Hand-written stand-ins for the packages of trackers, of which each test writes the ones that it needs.

They accept the calls that Turnwise makes, with their names, and append what they got to ``calls.jsonl`` beside them.
The real packages pass the same test where they are installed (``test_trackers.py``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RECORD = """
import json, os, pathlib
def record(*call):
    with pathlib.Path(__file__).with_name("calls.jsonl").open("a") as file:
        file.write(json.dumps(call) + "\\n")
"""
WANDB = """
from recorder import record
def Settings(*, console, silent, disable_git, disable_code, x_disable_stats): return None
class Run:
    def define_metric(self, name, *, step_metric): pass
    def log(self, numbers): record("log", numbers.pop("step"), numbers)
    def finish(self): record("finish")
def init(*, project, name, id, resume, dir, mode, config, settings):
    record("init", project, name, id, mode, config)
    return Run()
"""
TRACKIO = """
import os
from recorder import record
class Run:
    def log(self, numbers, step): record("log", step, numbers)
    def finish(self): record("finish")
def init(project, name, *, config, resume, space_id, embed, auto_log_gpu, auto_log_cpu):
    record("init", project, name, name.rpartition("-")[2], "online" if space_id else "offline", config)
    return Run()
"""
MLFLOW = """
from types import SimpleNamespace as Of
from recorder import record
class MlflowClient:
    def __init__(self, tracking_uri=None): self.uri = tracking_uri
    def get_experiment_by_name(self, name): return None
    def create_experiment(self, name, artifact_location):
        self.project = name
        return "7"
    def search_runs(self, experiments, filter_string): return []
    def create_run(self, experiment, run_name, tags):
        self.name, self.id, self.params = run_name, tags["turnwise.run"], {}
        self.begun = False
        return Of(info=Of(run_id="r"))
    def log_batch(self, run, metrics=(), params=()):
        self.params |= dict(params)
        if metrics and not self.begun:
            self.begun = True
            where = "offline" if self.uri else "online"
            record("init", self.project, self.name, self.id, where, self.params)
        if metrics: record("log", metrics[0][3], {key: value for key, value, _, _ in metrics})
    def set_terminated(self, run): record("finish")
"""
MLFLOW_ENTITIES = """
def Metric(key, value, timestamp, step): return key, value, timestamp, step
def Param(key, value): return key, value
"""
FILES = {
    "wandb": {"wandb.py": WANDB},
    "trackio": {"trackio.py": TRACKIO},
    "mlflow": {
        "mlflow/__init__.py": MLFLOW,
        "mlflow/entities.py": MLFLOW_ENTITIES,
        "mlflow/exceptions.py": "class MlflowException(Exception): pass",
    },
}


def warned(caplog: pytest.LogCaptureFixture) -> str:
    """Return the one warning that a tracker was lost, or nothing."""
    said = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "tracker lost"]
    assert len(said) <= 1, f"one tracker is one warning, not {said}"
    return said[0] if said else ""


def write(folder: Path, name: str, text: str | None = None) -> None:
    """Write the fake of a package, or a module of this text under its name."""
    files = FILES[name] if text is None else {f"{name}.py": text}
    for path, content in {"recorder.py": RECORD, **files}.items():
        folder.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(path).write_text(content)


def calls(folder: Path) -> list[Any]:
    """Return the calls that a fake recorded."""
    path = folder / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
