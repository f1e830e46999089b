"""The process of one tracker: reads lines of JSON from standard input and passes their numbers on.

The first line describes the run, each further one has the numbers of a step, and an empty object, or the end of the
input, ends the run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from .tracker import TrackedRun, Tracker, series

WAIT = 1.0
"""Seconds between two looks at the process that started this one."""


def tracker_for(name: str) -> Callable[[TrackedRun], Tracker]:
    """Return the class of a tracker by its name in ``tracking.to``; it imports the tracker's package when called."""
    if name == "tensorboard":
        from .to_tensorboard import TensorBoard as Found
    elif name == "wandb":
        from .to_wandb import WeightsAndBiases as Found  # type: ignore[assignment]
    elif name == "trackio":
        from .to_trackio import Trackio as Found  # type: ignore[assignment]
    elif name == "mlflow":
        from .to_mlflow import MLflow as Found  # type: ignore[assignment]
    else:
        from .to_otel import OpenTelemetry as Found  # type: ignore[assignment]
    return Found


def main(name: str, patience: float) -> None:
    """Track a run until it ends.

    Args:
        name: name of the tracker.
        patience: seconds that it has to finish when the run's process died.
    """
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, signal.SIG_IGN)  # the run may still have numbers for it
    threading.Thread(target=_outlive, args=(os.getppid(), patience), daemon=True).start()
    with os.fdopen(os.dup(0), encoding="utf-8") as lines:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # so that no process of the tracker's package reads these lines, or keeps the pipe open
        ended = _track(name, lines)
    sys.stdout.flush()
    sys.stderr.flush()
    if not ended:  # the run may be dead, and then no other process ends what the package started
        _end_group()
    os._exit(0)  # threads that a package left behind must not hold up the end of the run


def _track(name: str, lines: IO[str]) -> bool:
    """Pass all lines on; return whether the last one ended the run, and the tracker took them."""
    said = False
    try:
        tracker = tracker_for(name)(TrackedRun(**json.loads(lines.readline())))
        for line in lines:
            entry: dict[str, Any] = json.loads(line)
            if not entry:
                said = True
                break
            step = entry.pop("step")
            tracker.log(step, {series(name): value for name, value in entry.items() if value is not None})
        tracker.close()
    except BaseException as error:
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr)  # one line, the last of the log
        return False
    return said


def _outlive(parent: int, patience: float) -> None:
    """End this process a while after its parent died, in case that the tracker hangs and never reads so."""
    while os.getppid() == parent:
        time.sleep(WAIT)
    time.sleep(patience)
    _end_group()


def _end_group() -> None:
    """End this process and those that the tracker's package started, which a living run would end."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
