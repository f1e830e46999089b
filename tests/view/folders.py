"""A folder of runs in every state."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .fakes import LONGER, episode, family, learned, store, training


def build(root: Path) -> Path:
    """Write runs that finished, were interrupted, failed and are damaged, an evaluation, and one to be locked."""
    learned(store(training(root / "done") / "training_episodes", family()), [episode("e0", LONGER)])
    training(root / "killed", done=4, end=None, seed=1)
    training(root / "broken", done=3, end="failed", seed=2)
    (training(root / "torn") / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0}\nnonsense\n{"step": 2}\n')
    many = [episode(f"t{n}", success=n % 3 > 0, level=1 + n % 4, group_id=f"g{n // 4}") for n in range(120)]
    about: dict[str, Any] = {"env": "turnwise/Maze-v0", "policy": "openai:model", "api": {"key": "secret-of-the-api"}}
    store(root / "eval" / "episodes", many, per_part=32, run=about)
    training(root / "live", steps=20, done=5, end=None, seed=3)
    return root


@contextmanager
def running(run: Path) -> Iterator[None]:
    """Hold the lock of a run, as its process does."""
    with (run / "_lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
