"""Progress of a run where there is no terminal."""

from __future__ import annotations

import io

from rich.console import Console

from turnwise.rollouts.progress import LINE_SECONDS, RunProgress
from turnwise.rollouts.stats import RunStats


def test_off_a_terminal_a_long_run_prints_a_line_now_and_then() -> None:
    said, now, stats = io.StringIO(), [0.0], RunStats()
    with RunProgress(stats, total=9, done=4, console=Console(file=said), clock=lambda: now[0]) as progress:
        for _ in range(4):
            now[0] += LINE_SECONDS / 2
            progress.tick()
    assert said.getvalue() == "4/9 episodes\n" * 2, "not a line per episode, and none in a short run"


def test_a_quiet_run_prints_nothing() -> None:
    said, now = io.StringIO(), [0.0]
    with RunProgress(RunStats(), quiet=True, console=Console(file=said), clock=lambda: now[0]) as progress:
        now[0] += 10 * LINE_SECONDS
        progress.tick()
    assert said.getvalue() == ""
