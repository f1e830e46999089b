"""The protocol of a tracker, and the run that it receives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """Description of a run for a tracker; it crosses a pipe as JSON.

    Args:
        name: name of the run.
        project: name of the project that it belongs to.
        id: identifier of the run, the same after a resume; empty if only TensorBoard tracks the run.
        folder: the run's folder.
        local: folder of the tracker's local files.
        online: whether the tracker may use the network.
        resume_at: number of finished steps; later numbers of an interrupted run are replaced.
        config: settings of the run, without secrets.
    """

    name: str
    project: str
    id: str
    folder: str
    local: str
    online: bool
    resume_at: int
    config: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """Folder of the local files, which exists after this call."""
        path = Path(self.local)
        path.mkdir(parents=True, exist_ok=True)
        return path


class Tracker(Protocol):
    """A place for the numbers of one run. Any exception ends the tracker, and never the run."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Record finite numbers of a step, by the names of ``series``."""

    def close(self) -> None:
        """Finish writing."""


def series(name: str) -> str:
    """Return the name of a number in trackers: those without a group belong to ``train/``."""
    return name if "/" in name else f"train/{name}"


def plain(name: str, allowed: str) -> str:
    """Replace characters of a name by ``_`` unless a character class such as ``"A-Za-z0-9_"`` allows them."""
    return re.sub(f"[^{allowed}]", "_", name)


def flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of nested tables by their whole keys: ``("optimizer.lr", 1e-4)``."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
