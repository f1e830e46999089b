"""Numbers of a training run: a JSONL file, trackers, and a progress line on the screen."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from ...errors import UsageError
from ...logs import shown, tell
from ..tracking.trackers import Trackers

LOG = logging.getLogger(__name__)

METRICS = "metrics.jsonl"
"""Name of the log in a run's folder."""
SHOWN = ("loss", "return", "success", "eval/return", "eval/success")
"""The most important metrics, which a progress bar or line shows."""
FAILED = ("unscored", "policy_failed")
"""Counts of failed episodes, which are shown after them unless they are 0."""
LINES = 100
"""The most lines that the steps of a run print off a terminal."""


class MetricsLog:
    """JSON objects in ``metrics.jsonl``, each with its step, and the same numbers for trackers.

    A step may have two lines: metrics of learning, and, under ``eval/``, those of the evaluation after it.

    Args:
        folder: the run's folder.
        resume_at: number of finished steps; later lines of an interrupted run are removed, so that no step is in the
            file twice.
        trackers: trackers that receive the numbers too; the caller closes them (default: none).
    """

    def __init__(self, folder: Path, *, resume_at: int = 0, trackers: Trackers | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / METRICS
        kept = [line for line in read_metrics(self.path) if line["step"] <= resume_at] if self.path.exists() else []
        partial = self.path.with_suffix(".part")
        partial.write_text("".join(json.dumps(line) + "\n" for line in kept))
        partial.replace(self.path)
        self._file = self.path.open("a", encoding="utf-8")
        self._logged = {(line["step"], name) for line in kept for name in line}
        self._trackers = trackers or Trackers()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the numbers of one step; numbers that are not finite become null in the file and skip trackers."""
        finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        self._file.write(json.dumps({"step": step, **finite}) + "\n")
        self._file.flush()
        self._logged |= {(step, name) for name in finite}
        self._trackers.log(step, finite)

    def has(self, step: int, name: str) -> bool:
        """Whether a number was logged at a step."""
        return (step, name) in self._logged

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a metrics file; a last line that a kill cut short is dropped.

    Raises:
        UsageError: another line is not a JSON object with a step.
    """
    lines = path.read_bytes().splitlines()
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            entry["step"] = int(entry["step"])
        except (ValueError, TypeError, KeyError):
            if number == len(lines):
                break
            raise UsageError(f"{path}, line {number} is not a JSON object with a step: {line[:60]!r}") from None
        found.append(entry)
    return found


class Stopwatch:
    """Measures how long each part of a step takes.

    Args:
        background: function that returns the seconds of play so far, if episodes are played in the background.
    """

    def __init__(self, background: Callable[[], float] | None = None) -> None:
        self._seconds: dict[str, float] = {}
        self._start = time.perf_counter()
        self._background = background
        self._played = background() if background else 0.0

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Count the time inside the ``with`` block towards ``part``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[part] = self._seconds.get(part, 0.0) + time.perf_counter() - start

    def metrics(self, tokens: float) -> dict[str, float]:
        """Return seconds per part and in all, trained tokens per second, and the idle share of each side.

        While episodes are collected the learner waits, and while it learns the policy waits. With one model in one
        process the two alternate, and their idle shares show the possible gain of overlapping them. With overlap, the
        policy's share is the time in which no episode runs, and the two add up to less than 1.
        """
        total = time.perf_counter() - self._start
        playing = self._seconds.get("collect", 0.0)
        numbers = {f"seconds/{part}": seconds for part, seconds in self._seconds.items()}
        if self._background is not None:
            numbers["seconds/playing"] = playing = self._background() - self._played
        numbers |= {"seconds/step": total, "tokens_per_second": tokens / total if total else 0.0}
        if total:
            numbers["idle/learner"] = 1 - self._seconds.get("learn", 0.0) / total
            numbers["idle/policy"] = max(0.0, 1 - playing / total)
        return numbers


class StepProgress:
    """A progress bar over steps with a few numbers behind it, on standard error.

    Off a terminal (``nohup``, Slurm, CI, a pipe) it prints lines: one per step, or ``LINES`` evenly over a longer run,
    and one per evaluation.

    Args:
        title: name of the work.
        total: number of steps in all.
        done: number of steps that are finished already.
        enabled: whether to show anything at all.
        console: console to print on (default: standard error).
    """

    def __init__(
        self, title: str, total: int, *, done: int = 0, enabled: bool = True, console: Console | None = None
    ) -> None:
        self._console = console or Console(stderr=True, soft_wrap=True, highlight=False)
        self.total = total
        self._title, self._done, self._enabled = title, done, enabled
        self._warned, self._seen = set[str](), dict[str, float]()
        self._every = -(-total // LINES)
        whole = Column(no_wrap=True)  # on a narrow screen, the numbers go to a second line
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24, table_column=whole),
            MofNCompleteColumn(table_column=whole),
            TimeElapsedColumn(table_column=whole),
            TimeRemainingColumn(table_column=whole),
            TextColumn("{task.fields[numbers]}", table_column=Column()),
            console=self._console,
            disable=not enabled or not self.live,
        )
        self._task = self._bar.add_task(title, total=total, completed=done, numbers="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, numbers: Mapping[str, float], *, advance: bool = False) -> None:
        """Show the most important of these numbers, and advance by one step on request."""
        self._seen.update(numbers)
        there = self._seen if self.live else numbers
        said = in_words(there)
        self._done += int(advance)
        self._bar.update(self._task, advance=int(advance), numbers=said)
        due = not advance or self._done in (1, self.total) or self._done % self._every == 0
        if due and not self.live and not shown(LOG, logging.INFO):
            self.say(f"{self._title} {self._done}/{self.total}  {said}")

    @property
    def live(self) -> bool:
        """Whether there is a bar, which always shows the last numbers of each name."""
        return self._console.is_terminal

    def warn(self, kind: str, text: str) -> None:
        """Log the first warning of a kind that is not empty, or print it if no handler shows it."""
        if text and kind not in self._warned:
            self._warned.add(kind)
            tell(LOG, kind, text, otherwise=self.say)

    def say(self, text: str) -> None:
        """Print one line, above the bar if there is one."""
        if self._enabled:
            self._console.print(text, markup=False)


def in_words(metrics: Mapping[str, float]) -> str:
    """Return the most telling numbers: ``"loss 0.13  return 0.8  success 0.75  tokens/s 900  unscored 2"``."""
    parts = [f"{name} {metrics[name]:.3g}" for name in SHOWN if name in metrics]
    if "tokens_per_second" in metrics:
        parts.append(f"tokens/s {metrics['tokens_per_second']:,.0f}")
    return "  ".join(parts + [f"{name} {metrics[name]:.0f}" for name in FAILED if metrics.get(name)])
