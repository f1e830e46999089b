"""Trap 24: killed at random points and resumed, a run is bitwise the run that was never interrupted."""

from __future__ import annotations

import json
import random
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.config import Config
from turnwise.trainers import behavior_cloning, loop
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.run_folder import RunFolder

from . import small


def start(target: Any, config: Config) -> ForkServerProcess:
    process = small.FORKS.Process(target=target, args=(config,))
    process.start()
    return process


def finish(target: Any, config: Config) -> None:
    process = start(target, config)
    process.join(300)
    assert process.exitcode == 0


def killed_and_resumed(target: Any, config: Any, after: list[int], seed: int) -> None:
    """Kill the run at a random moment after each of these many lines were logged, resume, and let it finish."""
    log, rng = Path(config.out) / "metrics.jsonl", random.Random(seed)
    for lines in after:
        process = start(target, config)
        while not (log.exists() and log.read_bytes().count(b"\n") >= lines):
            assert process.is_alive(), "the run ended before it came so far"
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.02))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "the kill hit a living run"
        config = config.model_copy(update={"resume": True})
    finish(target, config)


def state(folder: Path, algorithm: str) -> tuple[bytes, Any, list[dict[str, Any]]]:
    """Weights, everything else that a next step would depend on, and what was logged but for the time it took."""
    latest = RunFolder(folder, algorithm).checkpoints.latest()
    clocks = ("seconds", "idle", "tokens_per", "memory", "perf")
    logged = [
        {name: value for name, value in line.items() if not name.startswith(clocks)}
        for line in read_metrics(folder / "metrics.jsonl")
    ]
    weights = (folder / "model" / "model.safetensors").read_bytes()
    return weights, (latest.step, latest.progress, latest.tensors), logged


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


@pytest.mark.slow
def test_trap_24_loop_killed_at_random_points_is_bitwise_the_same_run(tmp_path: Path, cloned: Path) -> None:
    finish(loop.train, small.looping(tmp_path / "straight", cloned / "model"))
    moments = sorted(random.Random(1).sample(range(1, 7), 2))  # of nine lines: six steps, three evaluations
    killed_and_resumed(loop.train, small.looping(tmp_path / "broken", cloned / "model"), moments, seed=1)
    one, other = state(tmp_path / "straight", "loop"), state(tmp_path / "broken", "loop")
    assert one[0] == other[0], "the weights, to the last bit"
    assert same(one[1], other[1]), "optimizer, generators, cursor"
    assert one[2] == other[2], "every step is logged once, with the same numbers"
    before = (cloned / "model" / "model.safetensors").read_bytes()
    assert before != one[0], "something was learnt at all"


@pytest.mark.slow
def test_trap_24_cloning_killed_at_random_points_is_bitwise_the_same_run(tmp_path: Path) -> None:
    finish(behavior_cloning.train, small.cloning(tmp_path / "straight", checkpoint_every=5))
    broken = small.cloning(tmp_path / "broken", checkpoint_every=5)
    killed_and_resumed(behavior_cloning.train, broken, [9], seed=3)
    one, other = state(tmp_path / "straight", "bc"), state(tmp_path / "broken", "bc")
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert one[2] == other[2]


@pytest.mark.slow
def test_trap_24_n_plus_m_steps_are_n_then_resume_then_m(tmp_path: Path, cloned: Path) -> None:
    small.run(small.looping(tmp_path / "straight", cloned / "model", steps=4))
    small.run(small.looping(tmp_path / "parts", cloned / "model", steps=2))
    random.seed(5)  # whatever this process did meanwhile
    torch.manual_seed(5)
    small.run(small.looping(tmp_path / "parts", cloned / "model", steps=4, resume=True))
    one, other = state(tmp_path / "straight", "loop"), state(tmp_path / "parts", "loop")
    assert one[0] == other[0]
    assert one[1][1] == other[1][1]
    assert same(one[1][2]["learner"], other[1][2]["learner"])
    trained = [[line for line in logged if "loss" in line] for logged in (one[2], other[2])]
    assert trained[0] == trained[1]


def test_the_log_is_one_of_numbers(cloned: Path) -> None:
    lines = [json.loads(line) for line in (cloned / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 26))
    assert [line["step"] for line in lines if "eval/return" in line] == [0, 25]
