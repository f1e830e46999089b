"""Read the metrics of a run while it grows, and draw intervals around its rates."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from ..evals.curves import METRICS, RATES, curve, read_run
from ..evals.statistics import wilson

LATEST = ("success", "return", "eval/success", "eval/return", "loss", "seconds/step")
"""Metrics in the list of runs."""
POINTS = 2000
"""Most points of one curve that are sent; a longer one is thinned evenly, and keeps its last point."""
CHUNK = 64 * 2**20
"""Most bytes that are read at once."""
LARGEST = sys.float_info.max
"""Largest value of a metric; JSON also has integers that are larger."""
TAIL = 256 * 1024
"""Bytes at the end of a file that the list of runs reads."""
COMPARED = 4096
"""Most bytes before the place where reading continues that must not have changed."""

Point = tuple[int, float, float | None, float | None]
"""Step, value, and the ends of its interval, which only a rate has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of a run's metrics.

    Args:
        step: last step; ``None`` before the first.
        numbers: last value of the most important metrics.
        problem: the last damaged line among the last ones; empty if there is none.
    """

    step: int | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    problem: str = ""


class MetricsFile:
    """The metrics of one run, read as they are appended.

    Args:
        path: path of ``metrics.jsonl``, which need not exist yet.
        tail: number of bytes at the end of the file that count: reading begins there at first, and again when more
            than that was added; ``None`` for the whole file.
    """

    def __init__(self, path: Path, tail: int | None = None) -> None:
        self.path = path
        self.generation = 0
        """Number of times that the file was replaced, as a resumed run does; earlier points are then void."""
        self.series: dict[str, list[Point]] = {}
        self.step: int | None = None
        self.problem = ""
        """Description of the last damaged line; empty if there is none."""
        self.damaged = 0
        """Number of that line, from 1."""
        self._tail, self._began, self._damaged_at = tail, 0, 0
        self._offset, self._lines, self._last = 0, 0, b""
        self._state: tuple[int, int, int] | None = None
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read the lines that were added since the last call; a line without its end waits for the next call."""
        with self._lock:
            try:
                stat = self.path.stat()
            except OSError:
                self._start_afresh(0)
                return
            state = stat.st_ino, stat.st_size, stat.st_mtime_ns
            if state == self._state:
                return
            with self.path.open("rb") as file:
                if not self._continues(file, stat.st_ino, stat.st_size):
                    self._start_afresh(max(0, stat.st_size - self._tail) if self._tail else 0)
                self._read(file, stat.st_size)
            self._state = state

    def _start_afresh(self, began: int) -> None:
        """Forget the file that was read, and begin another one, or the same again, at an offset."""
        self.generation += self._state is not None
        self.series, self.step, self.problem = {}, None, ""
        self._began = self._offset = began
        self._lines, self._last, self._state = 0, b"", None

    def _continues(self, file: BinaryIO, inode: int, size: int) -> bool:
        """Whether a file is the one that was read, with at most ``tail`` more bytes.

        A file that replaced a removed one can have its inode, so the last lines that were read are compared, too.
        """
        if self._state is None or self._state[0] != inode or not 0 <= size - self._offset <= (self._tail or size):
            return False
        file.seek(self._offset - len(self._last))
        return file.read(len(self._last)) == self._last

    def _read(self, file: BinaryIO, size: int) -> None:
        while self._offset < size:
            file.seek(self._offset)
            complete, end, _ = file.read(CHUNK).rpartition(b"\n")
            if not end:
                return
            cut = 0 < self._began == self._offset  # the first line lacks its beginning
            for number, line in enumerate(complete.split(b"\n")):
                self._offset += len(line) + 1
                if number or not cut:
                    self.add(line)
            self._last = (self._last + complete[-COMPARED:] + end)[-COMPARED:]

    def latest(self) -> Latest:
        """Read the lines that were added, forget all points but the last ones, and return these."""
        self.refresh()
        with self._lock:
            if self._tail and self._offset - self._damaged_at > self._tail:
                self.problem = ""
            self.series = {name: self.series[name][-1:] for name in LATEST if name in self.series}
            where = f"{METRICS}, among its last lines" if self._began else f"{METRICS}, line {self.damaged}"
            numbers = {name: points[-1][1] for name, points in self.series.items()}
            return Latest(self.step, numbers, self.problem and f"{where}: {self.problem}")

    def since(self, counts: dict[str, int]) -> dict[str, list[Point]]:
        """Return the points that a reader does not have yet, and note in ``counts`` that it has them now.

        Args:
            counts: number of points by metric that the reader has; changed in place.
        """
        with self._lock:
            new = {name: points[counts.get(name, 0) :] for name, points in self.series.items()}
            counts.update({name: len(points) for name, points in self.series.items()})
        return {name: thinned(points) for name, points in new.items() if points}

    def add(self, line: bytes) -> None:
        """Add a complete line."""
        self._lines += 1
        if not line.strip():
            return
        try:
            record = json.loads(line)
            step = int(record.pop("step"))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            shown = line[:60].decode(errors="replace")
            self.problem = f"not a JSON object with a step: {shown!r}"
            self.damaged, self._damaged_at = self._lines, self._offset
            return
        self.step = step if self.step is None else max(step, self.step)
        for name, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
                self.series.setdefault(str(name), []).append((step, float(value), *_interval(name, value, record)))


def latest(path: Path) -> Latest:
    """Return the end of a metrics file, without reading the rest of a long one; it need not exist."""
    return _tail(path).latest()


@lru_cache(maxsize=1000)
def _tail(path: Path) -> MetricsFile:
    return MetricsFile(path, TAIL)


def _interval(name: str, value: float, record: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return Wilson's 95 % interval of a rate over the episodes of its line."""
    count = record.get("eval/episodes" if name.startswith("eval/") else "episodes")
    if name not in RATES or not isinstance(count, int | float) or not 1 <= count < 1e12 or not 0 <= value <= 1:
        return None, None
    found = wilson(min(value * count, count), count)
    return found.low, found.high


def thinned(points: list[Point], most: int = POINTS) -> list[Point]:
    """Return at most ``most`` points at even distances, the last one among them."""
    every = -(-len(points) // most)
    return points if every <= 1 else points[len(points) - 1 :: -every][::-1]


def over_seeds(paths: list[Path], names: list[str]) -> dict[str, list[Point]]:
    """Return mean and Student's 95 % interval of metrics over runs that differ only in their seed.

    Args:
        paths: folders of the runs.
        names: metrics.
    """
    runs = [read_run(path) for path in paths]
    found = {name: curve(runs, name) for name in names}
    return {
        name: thinned([(p.step, p.estimate.value, p.estimate.low, p.estimate.high) for p in each.points])
        for name, each in found.items()
        if each is not None
    }
