"""A run that is stopped while servers take its weights: they go on, or are woken by the run that is resumed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.inference.models import load_model
from turnwise.trainers.run.metrics import read_metrics

from ..inference.serving.fake_server import FakeServer
from . import small
from .test_served import as_toml

STEPS = 3


class Slow(FakeServer):
    """Takes its time to apply weights, so that something can happen meanwhile."""

    async def _finish_update(self, body: Any, query: Any) -> Any:
        await asyncio.sleep(0.5)
        return await super()._finish_update(body, query)

    @property
    def paused(self) -> bool:
        return not self._open.is_set()


@pytest.fixture
def server(cloned: Path) -> Iterator[Slow]:
    """It serves the model that runs begin with."""
    running = Slow(*load_model(cloned / "model"))
    with running:
        yield running


def train(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "turnwise.cli", "train", "loop", "--config", str(folder / "run.toml")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "times"),
    [
        (signal.SIGINT, 1),
        pytest.param(signal.SIGINT, 3, marks=pytest.mark.shift),
        pytest.param(signal.SIGKILL, 1, marks=pytest.mark.shift),
    ],
    ids=["ctrl-c", "ctrl-c again and again", "killed"],
)
def test_a_run_that_is_stopped_in_a_sync_resumes(
    tmp_path: Path, cloned: Path, server: Slow, kind: signal.Signals, times: int
) -> None:
    served = {"urls": [server.url], "timeout": 60}
    config = small.looping(tmp_path / "run", cloned / "model", steps=STEPS, server=served)
    (tmp_path / "run.toml").write_text(as_toml(config))
    process = train(tmp_path)
    while len(server.calls("/finish_weight_update")) < 2:  # the second sync is under way
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    for _ in range(times):
        process.send_signal(kind)
        time.sleep(0.05)
    _, said = process.communicate(timeout=240)
    if kind is signal.SIGKILL:
        assert server.paused, "nobody was left who could wake it"
    else:
        assert process.returncode == 130, said
        assert "--resume" in said
        warned = ("is_mode = tis", "cut at agent.max_tokens")
        stopped = [line for line in said.strip().splitlines() if not any(part in line for part in warned)]
        assert len(stopped) == 1, said
    if kind is signal.SIGINT:  # a user who repeats it will not wait for servers
        assert server.paused == (times > 1), "after one they go on, with whole weights"
    small.run(config.model_copy(update={"resume": True}))
    assert not server.paused
    done = [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "return" in line]
    assert done == list(range(1, STEPS + 1)), "every step once"
