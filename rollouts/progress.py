"""Progress of a run: episodes, success and return so far, turns per second, failures by kind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..logs import tell
from .episode import Outcome
from .stats import RunStats

LOG = logging.getLogger(__name__)
LINE_SECONDS = 30.0
"""Minimum seconds between two lines if the output is not a terminal."""


class RunProgress:
    """Shows a run's ``RunStats``: a progress bar on a terminal, elsewhere a line now and then.

    ::

        stats = RunStats()
        with RunProgress(stats, total=200) as progress:
            async for episode in run_episodes(env, agent, tasks, stats=stats):
                progress.tick()

    Args:
        stats: statistics of the run.
        total: total number of episodes; ``None`` if it is unknown.
        done: number of episodes that existed before this run.
        quiet: whether to show nothing.
        console: console to print on; standard error by default, so that results can be piped.
        clock: function that returns the time in seconds.
    """

    def __init__(
        self,
        stats: RunStats,
        *,
        total: int | None = None,
        done: int = 0,
        quiet: bool = False,
        console: Console | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._console = console = console or Console(stderr=True)
        self._stats, self._done, self._total = stats, done, total
        self._clock, self._lines = clock, not quiet and not console.is_terminal
        self._started = self._said = clock()
        self._bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[summary]}"),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task("episodes", total=total, completed=done, summary="")

    def tick(self) -> None:
        """Show the current state."""
        now, done = self._clock(), self._done + self._stats.episodes
        summary = summary_line(self._stats, now - self._started)
        self._bar.update(self._task, completed=done, summary=summary)
        if self._lines and now - self._said >= LINE_SECONDS:
            self._said = now
            whole = "" if self._total is None else f"/{self._total}"
            line = " · ".join(filter(None, (f"{done}{whole} episodes", summary)))
            known = {"episodes": done, "total": self._total}
            tell(LOG, "progress", line, known, level=logging.INFO, otherwise=self._print)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def summary_line(stats: RunStats, seconds: float) -> str:
    """Return ``success 61.5 % · return 0.62 · 240 turns/s · 3 EnvironmentTimeoutError``, without empty parts."""
    parts = []
    if stats.success_rate is not None:
        parts.append(f"success {100 * stats.success_rate:.1f} %")
    if stats.kept.mean_reward is not None:
        parts.append(f"return {stats.kept.mean_reward:.3g}")
    if stats.turns and seconds > 0:
        parts.append(f"{stats.turns / seconds:,.0f} turns/s")
    problems = [f"{count} {kind}" for kind, count in stats.failures.most_common()]
    problems += [
        f"{stats.outcomes[outcome]} {outcome}"
        for outcome in (Outcome.POLICY_FAILED, Outcome.INFRA_FAILED, Outcome.CANCELLED)
        if stats.outcomes[outcome]
    ]
    if stats.retries:
        problems.append(f"{stats.retries} retried")
    if problems:
        parts.append(", ".join(problems))
    return " · ".join(parts)
