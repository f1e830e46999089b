"""The smallest training runs that do learn: one maze, a model of a tenth of a million weights."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.trainers import behavior_cloning, loop
from turnwise.trainers.behavior_cloning import CloningConfig
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.run.conclusion import RunResult
from turnwise.trainers.run.interrupts import INTERRUPTED
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.opening import open_run
from turnwise.trainers.run.run import Run
from turnwise.trainers.run.settings import TrainConfig
from turnwise.trainers.run.training import Trainer, train_steps

FORKS = multiprocessing.get_context("forkserver")
"""Starts processes that need not import the libraries again; all tests of training share it."""
FORKS.set_forkserver_preload(["turnwise.trainers.loop", "turnwise.trainers.behavior_cloning"])
ENV = "turnwise/MazeU-v0"
MEASURED = ("seconds", "idle", "tokens_per", "time", "memory", "perf")
"""Beginnings of the names of metrics that measure the machine: two equal runs differ in them."""
MEETING = range(20_000, 32_000)
"""Ports for processes to meet at. The system gives none of them to a server or a connection that takes any port, and
Ray takes none, so that a port that is free stays free until the processes have started."""
SHARED: dict[str, Any] = {
    "env": ENV,
    "agent": {"context": "last:1", "max_tokens": 4, "show_tools": False},
    "episodes": {"env_kwargs": {"max_turns": 12}},
    "threads": 1,
    "progress": False,
    "tracking": {"to": []},
}


def meeting_port() -> int:
    """A port at which processes of this machine can meet, some time later."""
    for found in random.SystemRandom().sample(MEETING, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", found))
            except OSError:
                continue
            return found
    raise AssertionError("of 100 ports none is free")


def cloning(out: Path, **changes: Any) -> CloningConfig:
    settings: dict[str, Any] = {
        **SHARED,
        "out": str(out),
        "steps": 25,
        "batch": 32,
        "optimizer": {"lr": 3e-3},
        "nano": {"size": "0.1M", "layers": 1, "hidden": 32},
        "demonstrations": {"count": 12, "skills": [0.5]},
        "eval": {"split": "train", "episodes": 4, "every": 0},
    }
    return CloningConfig.model_validate(settings | changes)


def looping(out: Path, model: Path, **changes: Any) -> LoopConfig:
    settings: dict[str, Any] = {
        **SHARED,
        "out": str(out),
        "model": str(model),
        "steps": 6,
        "tasks_per_step": 2,
        "group_size": 3,
        "minibatch": 4,
        "checkpoint_every": 1,
        "eval": {"split": "train", "episodes": 4, "every": 3},
    }
    return LoopConfig.model_validate(settings | changes)


def clone(config: CloningConfig) -> RunResult:
    return behavior_cloning.train(config)


def run(config: LoopConfig) -> RunResult:
    return loop.train(config)


async def stopped(
    trainer: type[Trainer[Any]],
    config: TrainConfig,
    ready: Callable[[Run], bool],
    cancel: Callable[[asyncio.Task[None]], object] = lambda task: task.cancel(),
) -> Run:
    """Train until ``ready``, and then stop the run as Ctrl-C does, or as ``cancel`` does."""
    opened: list[Run] = []

    async def life() -> None:
        async with open_run(config) as run:
            steps = trainer(config, run)
            opened.append(run)
            await train_steps(steps)

    task = asyncio.create_task(life())
    while not (opened and ready(opened[0])) and not task.done():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    cancel(task)
    with pytest.raises(asyncio.CancelledError):
        await task
    return opened[0]


def interrupted(out: Path, model: Path, *words: str) -> int:
    """Start an endless LOOP in a process, interrupt it with Ctrl-C, and check its output.

    Returns:
        The last step that it logged.
    """
    settings = [
        f"out={out}",
        "steps=100000",
        f"env={ENV}",
        f"model={model}",
        "tasks_per_step=2",
        "group_size=2",
        "agent.context=last:1",
    ]
    settings += ["agent.max_tokens=4", "episodes.env_kwargs.max_turns=12", "eval.episodes=0", "threads=1"]
    command = [sys.executable, "-m", "turnwise.trainers.loop", *settings, "tracking.to=[]", *words]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    log = out / "metrics.jsonl"
    while not (log.exists() and log.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == INTERRUPTED, errors
    assert "continues with --resume" in errors
    assert "Traceback" not in errors
    return max(int(line["step"]) for line in read_metrics(log))
