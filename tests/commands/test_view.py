"""``turnwise view`` before there is a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``turnwise view`` in an empty folder, after its message that it waits."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "turnwise", "view", "--port", "0", "--token", "t" * 32]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, env={**os.environ})
    watch = threading.Timer(120, process.kill)
    watch.start()
    assert process.stderr is not None
    assert process.stderr.readline() == "there is no run in runs/ yet; waiting for the first (or name another folder)\n"
    yield process
    watch.cancel()
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_it_waits_for_the_first_run(viewer: subprocess.Popen[str], tmp_path: Path) -> None:
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "metrics.jsonl").write_text('{"step": 0}\n')
    assert viewer.stdout is not None
    assert viewer.stdout.readline().startswith("http://127.0.0.1:")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_ended_while_it_waits(viewer: subprocess.Popen[str], kind: signal.Signals) -> None:
    viewer.send_signal(kind)
    assert viewer.wait(60) == 0
    assert viewer.communicate() == ("", "")


def test_a_named_folder_without_runs_is_a_mistake(run: Run, tmp_path: Path) -> None:
    run("view", str(tmp_path)).refused("there is no run in")
    run("view", "nowhere").refused("no folder nowhere")
