from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from turnwise.errors import UsageError
from turnwise.trainers.run.metrics import MetricsLog, StepProgress, Stopwatch, read_metrics


def test_a_resumed_log_has_every_step_once(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        for step in range(1, 6):
            log.write(step, {"loss": float(step)})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "lo')  # a kill in the middle of a line
    with MetricsLog(tmp_path, resume_at=3) as log:
        assert log.has(3, "loss")
        assert not log.has(4, "loss")
        log.write(4, {"loss": 40.0})
    assert [(m["step"], m["loss"]) for m in read_metrics(log.path)] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 40.0)]


def test_numbers_that_are_none_are_null(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        log.write(1, {"loss": float("nan"), "return": float("-inf")})
    assert json.loads(log.path.read_text()) == {"step": 1, "loss": None, "return": None}


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(UsageError, match="line 2"):
        MetricsLog(tmp_path)
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n{"step": "\xff"}\n{"step": 2}\n')
    with pytest.raises(UsageError, match="line 2"):
        MetricsLog(tmp_path)


def test_the_stopwatch_splits_a_step() -> None:
    clock = Stopwatch()
    for part in ("collect", "learn", "learn"):
        with clock(part):
            sum(range(1000))
    numbers = clock.metrics(100)
    assert numbers["seconds/collect"] + numbers["seconds/learn"] <= numbers["seconds/step"]
    assert numbers["idle/learner"] == pytest.approx(1 - numbers["seconds/learn"] / numbers["seconds/step"])
    assert numbers["tokens_per_second"] == pytest.approx(100 / numbers["seconds/step"])


def test_off_a_terminal_steps_are_lines_and_a_long_run_prints_some_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with StepProgress("loop", 250) as bar:
        bar.show({"eval/success": 0.25})
        for _ in range(250):
            bar.show({"loss": 0.5}, advance=True)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == "", "standard output belongs to the result"
    assert lines[:3] == ["loop 0/250  eval/success 0.25", "loop 1/250  loss 0.5", "loop 3/250  loss 0.5"]
    assert lines[-1] == "loop 250/250  loss 0.5"
    assert len(lines) <= 103, "a log file stays short"
    with StepProgress("loop", 2, enabled=False) as bar:
        bar.show({"loss": 0.5}, advance=True)
        bar.say("anything")
    assert capsys.readouterr().err == "", "progress=false says nothing"


def test_a_line_has_the_rate_and_the_failures_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    with StepProgress("loop", 2) as bar:
        bar.show({"return": 0.5, "tokens_per_second": 1234.5, "unscored": 0.0, "policy_failed": 0.0}, advance=True)
        bar.show({"return": 0.5, "unscored": 2.0, "policy_failed": 1.0}, advance=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["loop 1/2  return 0.5  tokens/s 1,234", "loop 2/2  return 0.5  unscored 2  policy_failed 1"]


def test_the_bar_of_a_narrow_terminal_is_whole() -> None:
    shown = io.StringIO()
    numbers = dict.fromkeys(("loss", "return", "success", "eval/return", "eval/success"), 0.123)
    with StepProgress("loop", 12, console=Console(file=shown, force_terminal=True, width=80)) as bar:
        for _ in range(10):
            bar.show(numbers, advance=True)
    assert "…" not in shown.getvalue(), "no number and no time is cut"
    assert "eval/success 0.123" in " ".join(shown.getvalue().split())
