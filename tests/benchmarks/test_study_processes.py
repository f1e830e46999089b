"""Runs of studies in processes of their own: an interrupt reaches each of them, however new it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def test_a_run_that_has_just_begun_is_interrupted(bench: Any, tmp_path: Path) -> None:
    order = tmp_path / "job.json"
    os.mkfifo(order)  # without a writer, its reader waits
    run = bench.RunProcess(order, tmp_path / "log.txt")
    run.interrupt()
    assert run.wait() == bench.INTERRUPTED
