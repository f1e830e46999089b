"""TensorBoard: event files in the run's folder, written without torch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .tracker import TrackedRun


class TensorBoard:
    """Writes scalars to ``tensorboard/``; steps beyond ``resume_at`` that an interrupted run wrote are purged."""

    def __init__(self, run: TrackedRun) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event: Any = Event
        self._summary: Any = Summary
        self._writer = EventFileWriter(str(Path(run.folder, "tensorboard")))
        start = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=time.time(), step=run.resume_at + 1, session_log=start))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))
        self._writer.flush()  # a step takes seconds, and readers want it now

    def close(self) -> None:
        self._writer.close()
