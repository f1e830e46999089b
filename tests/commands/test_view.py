"""``turnwise view`` refuses folders without runs that a user names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_a_named_folder_without_runs_is_a_mistake(run: Run, tmp_path: Path) -> None:
    run("view", str(tmp_path)).refused("there is no run in")
    run("view", "nowhere").refused("no folder nowhere")
