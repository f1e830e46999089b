"""The table of baselines: what is played, completed after an interruption, and shown."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


@pytest.fixture
def baselines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("baselines")
    monkeypatch.undo()


def typed(baselines: Any, monkeypatch: pytest.MonkeyPatch, out: Path, *more: str) -> None:
    sizes = ["--demonstrations", "2", "--tasks", "2", "--sequences", "2"]
    monkeypatch.setattr(sys, "argv", ["baselines.py", "MazeU", *sizes, "--out", str(out), *more])
    baselines.main()


@pytest.mark.slow
def test_a_run_that_was_stopped_is_completed_and_repeats_itself(
    baselines: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "found.jsonl"
    typed(baselines, monkeypatch, out)
    whole = out.read_text().splitlines(keepends=True)
    assert [json.loads(line)["baseline"] for line in whole] == list(baselines.BASELINES)
    out.write_text(whole[0] + whole[1] + whole[2][:20])
    typed(baselines, monkeypatch, out)
    kept = [json.loads(line) for line in whole]
    assert baselines.recorded(out) == kept, "the broken line is dropped, the others stay, and the rest is as before"
    capsys.readouterr()
    typed(baselines, monkeypatch, out, "--table")
    assert "| MazeU-v0 | train | 2 |" in capsys.readouterr().out


def test_levels_are_shown_without_training_and_only_where_something_scores(baselines: Any) -> None:
    def record(split: str, baseline: str, solved: int) -> dict[str, Any]:
        return {"env": "turnwise/A-v0", "level": 2, "split": split, "baseline": baseline, "solved": solved, "tasks": 10}

    records = [record("train", "memorizer", 10), record("dev", "template", 1), record("test_iid", "template", 5)]
    shown = "\n".join(baselines.table(records))
    assert "| A-v0 | 2 | template | 6 of 20 | 15 to 52 % |" in shown
    assert "| A-v0 | 2 | memorizer |" not in shown
