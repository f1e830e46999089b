"""The GPU trial at nano shapes on the CPU: each of its checks runs, since a short day with a GPU allows no repairs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
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
@pytest.mark.shift
@pytest.mark.parametrize("part", ["correctness", "speed", "learning"])
def test_the_plan_runs_every_check(part: str, tmp_path: Path) -> None:
    done = trial("--plan", "--parts", part, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / f"{part}.log").read_text()
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert len(lines) >= 4
    assert all(line["ok"] and line["plan"] and line["device"] == "cpu" for line in lines)
    report = (tmp_path / "report.md").read_text()
    assert report.startswith("# GPU trial: cpu")
    assert report.count("| yes |") == len(lines)
    assert ("798 (H100, H200)" in report) == (part == "correctness"), "a prediction stands beside its measurement"


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("part", ["serving", "peer"])
def test_without_vllm_and_trl_their_checks_say_so(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_PYTHON", raising=False)
    monkeypatch.delenv("TRL_PYTHON", raising=False)
    done = trial("--plan", "--parts", part, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / f"{part}.log").read_text()
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert all("no TRL here" in line["note"] for line in lines) or part == "serving"
    reasons = {line.get("note") for line in lines if line.get("skipped")}
    assert part == "peer" or {reason.split(":")[0] for reason in reasons} >= {"no vLLM here", "CUDA IPC"}


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.shift("vllm: gpu trial")
def test_the_plan_of_serving_runs_on_the_real_vllm(tmp_path: Path) -> None:
    done = trial("--plan", "--parts", "serving", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "serving.log").read_text()
    lines = {line["name"]: line for line in map(json.loads, (tmp_path / "lines.jsonl").read_text().splitlines())}
    assert lines["weights through files"]["warnings"] == 0
    assert lines["LOOP, echo episodes"]["learn"] > 0
    assert lines["engine, then resume"]["resumed"]
    assert lines["sleep and wake"]["note"] == "vLLM sleeps: on a GPU only"


def test_the_wheels_are_exact_versions() -> None:
    names = [line for file in TRIAL.glob("wheels/*.txt") for line in file.read_text().splitlines() if line[0] != "#"]
    assert len(names) > 15
    assert all(name.count("==") == 1 for name in names), "what is tried there is what was tried here"


@pytest.mark.slow
@pytest.mark.shift
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


@pytest.mark.slow
@pytest.mark.shift
def test_a_part_that_is_stopped_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that a part started would hold the memory of the GPU while the next part measures."""
    monkeypatch.syspath_prepend(str(TRIAL))
    spec = importlib.util.spec_from_file_location("gpu_trial_main", TRIAL / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "part.py").write_text(
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path(sys.argv[1], 'child').write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    vars(module)["HERE"] = tmp_path
    module._run("part", tmp_path, plan=True, minutes=0.1)
    assert ends(Path("/proc") / (tmp_path / "child").read_text()), "the child of the part goes on"


def ends(process: Path) -> bool:
    """Whether a process that was killed ends; on a busy machine, that takes a moment."""
    for _ in range(600):
        try:
            if "Z (zombie)" in (process / "status").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False
