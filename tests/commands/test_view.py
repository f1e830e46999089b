"""``turnwise view`` refuses folders without runs that a user names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_a_named_folder_without_runs_is_a_mistake(run: Run, tmp_path: Path) -> None:
    run("view", str(tmp_path)).refused("there is no run in")
    run("view", "nowhere").refused("no folder nowhere")


def test_a_file_leads_to_the_folder_of_its_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "runs" / "loop" / "model").mkdir(parents=True)
    for name in ("metrics.jsonl", "model/config.json"):
        (tmp_path / "runs" / "loop" / name).write_text("")
        run("view", f"runs/loop/{name}").refused(f"{name} is a file; name the folder", "such as runs/loop\n")
    run("view", "guess.py").refused("guess.py is a file; name the folder of a run, or a folder of runs\n")


def test_a_viewer_in_the_terminal_needs_a_terminal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "runs" / "loop").mkdir(parents=True)
    (tmp_path / "runs" / "loop" / "metrics.jsonl").write_text("")
    run("view", "--tui").refused("--tui needs a terminal")
