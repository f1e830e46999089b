"""Checkpoints of many processes: killed, damaged, and continued by another number of processes."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, MetadataIndex

from turnwise.errors import CheckpointError
from turnwise.trainers import on_policy
from turnwise.trainers.on_policy import OnPolicyConfig
from turnwise.trainers.run.checkpoint import FORMAT, SHARDED_FORMAT
from turnwise.trainers.run.run_folder import RunFolder
from turnwise.trainers.run.shards import read_shards

from . import small
from .test_together import assert_the_same, learnt, start


def children(process: int) -> list[int]:
    """Return the processes below one, the deepest first."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [each for child in map(int, found) for each in (*children(child), child)]


def kill(started: subprocess.Popen[str]) -> None:
    """Kill a run of many processes, as a machine does that loses its power."""
    for process in [started.pid, *children(started.pid)]:
        os.kill(process, signal.SIGKILL)
    started.communicate()


def manifest(checkpoint: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkpoint / "manifest.json").read_text())
    return found


@pytest.mark.slow
def test_one_process_then_two_that_are_killed_then_one_are_one_run(tmp_path: Path, cloned: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    config = small.looping(other, cloned / "model", steps=2, eval={"episodes": 0})
    small.run(config)
    checkpoints = RunFolder(other, "loop").checkpoints
    assert manifest(checkpoints.latest().path)["format"] == FORMAT, "older versions read what one process writes"

    parallel = {"replicas": 2}
    changes = {
        "resume": True,
        "steps": 10000,
        "parallel": parallel,
        "checkpoint_in_background": True,
        "eval": {"episodes": 0},
    }
    running = start(small.looping(other, cloned / "model", **changes), 2)
    while not any(path.name >= "step-00000004" for path in checkpoints.folder.glob("step-*")):
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.02)
    kill(running)
    found = checkpoints.latest()
    assert not found.passed_over
    assert found.shards is not None
    assert {"shards/.metadata", "shards/__0_0.distcp"} <= set(manifest(found.path)["files"])
    assert manifest(found.path)["format"] == SHARDED_FORMAT
    assert not list((found.path / "model").glob("*.safetensors")), "weights are in the shards alone"

    steps = found.step + 1
    small.run(config.model_copy(update={"resume": True, "steps": steps}))
    assert manifest(checkpoints.latest().path)["format"] == FORMAT
    small.run(small.looping(one, cloned / "model", steps=steps, eval={"episodes": 0}))
    assert_the_same(one, other)


@pytest.mark.slow
@pytest.mark.shift
def test_torn_shards_are_never_resumed(tmp_path: Path, cloned: Path) -> None:
    out = tmp_path / "run"
    changes = {"steps": 2, "keep_checkpoints": 3, "optimizer": {"autocast": "bfloat16", "kind": "adamw-fused"}}
    changes |= {"parallel": {"mixed_precision": "bfloat16"}}
    running = start(small.looping(out, cloned / "model", **changes), 2)
    said, _ = running.communicate(timeout=240)
    assert running.returncode == 0, said
    alone = tmp_path / "alone"
    small.run(small.looping(alone, cloned / "model", **changes))
    first, same = learnt(out)[1], learnt(alone)[1]
    assert first["loss"] == pytest.approx(same["loss"], abs=1e-2)
    assert first["grad_norm"] == pytest.approx(same["grad_norm"], rel=0.1)

    checkpoints = RunFolder(out, "loop").checkpoints
    newest, before = sorted(checkpoints.folder.iterdir(), reverse=True)[:2]
    for name in ("__1_0.distcp", ".metadata"):
        copy = checkpoints.folder / "step-00000009"
        for damage in ("missing", "another byte"):
            shutil.copytree(newest, copy)
            file = copy / "shards" / name
            whole = file.read_bytes()
            file.unlink()
            if damage == "another byte":
                file.write_bytes(whole[:-1] + b"?")
            found = checkpoints.latest()
            assert found.path == newest, f"{name} is damaged"
            assert len(found.passed_over) == 1
            shutil.rmtree(copy)
    stray = checkpoints.folder / ".writing-killed"
    shutil.copytree(before, stray / "new")
    assert checkpoints.latest().path == newest


class Evil:
    def __init__(self, mark: Path | None = None) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, ("true" if self.mark is None else f"touch '{self.mark}'",)


def test_reading_the_description_of_shards_runs_no_code(tmp_path: Path) -> None:
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError, match="does not belong in a checkpoint"):
        read_shards(tmp_path, torch.nn.Linear(1, 1), [], alone=True)


def test_reading_shards_runs_no_code_either(tmp_path: Path) -> None:
    torch.save(Evil(tmp_path / "ran"), tmp_path / "__0_0.distcp")
    place = _StorageInfo("__0_0.distcp", 0, (tmp_path / "__0_0.distcp").stat().st_size)
    described = Metadata({"model/weight": BytesStorageMetadata()}, storage_data={MetadataIndex("model/weight"): place})
    (tmp_path / ".metadata").write_bytes(pickle.dumps(described))
    with pytest.raises(CheckpointError, match="other than tensors: model/weight"):
        read_shards(tmp_path, torch.nn.Linear(1, 1, bias=False), [], alone=True)
    assert not (tmp_path / "ran").exists()


def test_reading_the_description_of_shards_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_strangers_module.py").write_text("class Any: pass")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / ".metadata").write_bytes(b"ca_strangers_module\nAny\n.")
    with pytest.raises(CheckpointError, match=r"a_strangers_module\.Any does not belong in a checkpoint"):
        read_shards(tmp_path, torch.nn.Linear(1, 1), [], alone=True)
    assert "a_strangers_module" not in sys.modules


@pytest.mark.shift
@pytest.mark.parametrize("name", ["grpo", "ppo"])
def test_an_on_policy_algorithm_learns_the_same_with_two_processes(tmp_path: Path, cloned: Path, name: str) -> None:
    settings: dict[str, Any] = {"model": str(cloned / "model"), "algorithm": {"name": name}, "steps": 2}
    settings |= {"tasks_per_step": 2, "group_size": 3, "values": {"warmup": 1}}
    settings |= {"eval": {"split": "train", "episodes": 2, "every": 0}}
    one, two = (
        OnPolicyConfig.model_validate({**small.SHARED, **settings, "out": str(tmp_path / which)})
        for which in ("one", "two")
    )
    running = start(two, 2, script="on_policy")
    said, _ = running.communicate(timeout=240)
    assert running.returncode == 0, said
    on_policy.train(one)
    assert_the_same(tmp_path / "one", tmp_path / "two")
