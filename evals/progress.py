"""The progress bar of an evaluation: how far, how well, how much is broken."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..rollouts.stats import RunStats


class ProgressBar:
    """A line on standard error that follows a run and disappears when it is over; silent where nobody watches.

    Args:
        total: episodes planned.
        done: episodes that are there already.
        shown: whether to show anything.
        console: where; standard error when omitted.
    """

    def __init__(self, total: int, done: int = 0, *, shown: bool = True, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("evaluating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._task = self._progress.add_task("episodes", total=total, completed=done, news="")

    def advance(self, stats: RunStats) -> None:
        """One more episode."""
        news = [] if stats.success_rate is None else [f"success {100 * stats.success_rate:.1f} %"]
        broken = stats.failures.total()
        self._progress.update(self._task, advance=1, news=" · ".join(news + ([f"{broken} broken"] if broken else [])))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
