"""The GPU trial at nano shapes on the CPU: each of its checks runs, since a short day with a GPU allows no repairs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
TRIAL = ROOT / "benchmarks" / "gpu_trial"
if not TRIAL.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


def trial(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "scripts" / "gpu-trial"), *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHON": sys.executable}
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", ["correctness", "speed"])
def test_the_plan_runs_every_check(part: str, tmp_path: Path) -> None:
    done = trial("--plan", "--parts", part, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / f"{part}.log").read_text()
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert len(lines) >= 6
    assert all(line["ok"] and line["plan"] and line["device"] == "cpu" for line in lines)
    report = (tmp_path / "report.md").read_text()
    assert report.startswith("# GPU trial: cpu")
    assert report.count("| yes |") == len(lines)


@pytest.mark.slow
def test_a_part_beyond_its_limit_is_a_line_and_the_report_is_written(tmp_path: Path) -> None:
    done = trial("--plan", "--parts", "speed", "--minutes", "0.001", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "stopped after 0.001 min" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("words", "said"), [(["--parts", "sped"], "unknown part 'sped'"), ([], "no GPU")])
def test_bad_input_is_refused(words: list[str], said: str, tmp_path: Path) -> None:
    if not words and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    done = trial(*words, "--out", str(tmp_path / "none"))
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "none").exists()
