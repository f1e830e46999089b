"""Whole runs of many processes, started as a user would start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from turnwise.config import Config
from turnwise.errors import UsageError
from turnwise.inference.models import load_model
from turnwise.trainers.learning.parallel import process_group
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.run_folder import RunFolder

from ..inference.serving.fake_server import FakeServer
from . import small

LORA = {"lora": {"rank": 4}}


def words(settings: dict[str, Any], prefix: str = "") -> list[str]:
    """Settings as a command line has them."""
    found: list[str] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            found += words(value, f"{prefix}{name}.")
        elif value is not None:
            found.append(f"{prefix}{name}={json.dumps(value)}")
    return found


def start(config: Config, processes: int, *, script: str = "loop") -> subprocess.Popen[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    return subprocess.Popen(
        [sys.executable, *launcher, f"turnwise.trainers.{script}", *words(config.model_dump(mode="json"))],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.shift
@pytest.mark.parametrize("overlap", [False, True])
def test_process_0_sends_weights_to_servers_and_all_judge_them(tmp_path: Path, cloned: Path, overlap: bool) -> None:
    model, tokenizer = load_model(cloned / "model")
    with FakeServer(model, tokenizer) as server:
        settings = {"steps": 3, "server": {"urls": [server.url]}, "overlap": {"enabled": overlap}}
        running = start(small.looping(tmp_path / "run", cloned / "model", **settings), 2)
        said, _ = running.communicate(timeout=240)
        assert running.returncode == 0, said
    for line in read_metrics(tmp_path / "run" / "metrics.jsonl"):
        if "return" in line:
            assert line["sync/canary_gap_max"] < 1e-4
            assert line.get("overlap/staleness_max", 0.0) <= float(overlap)
            assert overlap or line["mismatch_max"] < 1e-4


def learnt(folder: Path) -> list[dict[str, float]]:
    """Return the logged numbers, except for time and memory."""
    return [
        {name: value for name, value in line.items() if not name.startswith(small.MEASURED)}
        for line in read_metrics(folder / "metrics.jsonl")
    ]


def assert_the_same(one: Path, other: Path) -> None:
    for mine, theirs in zip(learnt(one), learnt(other), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-2, abs=1e-4)
    weights, others = (load_file(each / "model" / "model.safetensors") for each in (one, other))
    assert weights.keys() == others.keys()
    for name, weight in weights.items():
        assert torch.allclose(weight, others[name], atol=1e-3), name


@pytest.mark.slow
@pytest.mark.shift
def test_two_processes_interrupted_and_continued_by_one_are_one_run(tmp_path: Path, cloned: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    small.run(small.looping(one, cloned / "model", steps=6, **LORA))
    config = small.looping(two, cloned / "model", steps=6, checkpoint_every=6, **LORA)
    process = start(config, 2)
    log = two / "metrics.jsonl"
    while not (log.exists() and log.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=240)
    found = RunFolder(two, "loop").checkpoints.latest()
    assert 1 <= found.step < 6, said
    assert "continues with --resume" in said
    small.run(config.model_copy(update={"resume": True}))
    assert_the_same(one, two)


def test_a_script_for_one_process_refuses_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="bc trains in one process; start it without torchrun"):
        small.clone(small.cloning(tmp_path / "bc"))
    with pytest.raises(UsageError, match="cuda:0 is one GPU for 2 processes; say device=cuda"), process_group("cuda:0"):
        pass
