"""A training run in the log: each step once, on the command line as JSON alone."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.trainers.behavior_cloning import train

from ..logged import events
from .small import cloning

pytestmark = pytest.mark.slow


def test_each_step_evaluation_and_checkpoint_is_one_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="turnwise"):
        train(cloning(tmp_path, steps=2, batch=4, eval={"split": "train", "episodes": 2, "every": 0}))
    found = events(caplog.records)
    kinds = [kind for kind, _ in found if kind in ("step", "evaluation", "checkpoint")]
    assert kinds == ["evaluation", "step", "step", "checkpoint", "evaluation"]
    assert [fields["step"] for kind, fields in found if kind == "step"] == [1, 2]
    assert all({"loss", "seconds/step"} <= set(fields) for kind, fields in found if kind == "step")
    assert {"eval/success", "eval/return"} <= set(found[0][1]) | set(found[-1][1])


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("by", ["turnwise", "python -m"])
def test_standard_error_has_nothing_but_json(by: str, tmp_path: Path) -> None:
    small = "env=turnwise/MazeU-v0 steps=2 batch=4 nano.size=0.1M eval.episodes=0 demonstrations.count=2 "
    words = [*f"{small}agent.max_tokens=4 tracking.to=[] threads=1 --log-format json".split(), f"out={tmp_path}"]
    start = ["turnwise", "train", "bc"] if by == "turnwise" else ["turnwise.trainers.behavior_cloning"]
    done = subprocess.run([sys.executable, "-m", *start, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["step"] for line in found if line["event"] == "step"] == [1, 2]
    assert all(line["logger"].startswith("turnwise.") for line in found)
