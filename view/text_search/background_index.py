"""Index the texts of a large store before the first search, in a process of the lowest priority."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO
from weakref import WeakKeyDictionary

from ...envs.child_command import child_command
from ..episode_index import Snapshot
from .part_texts import PartTexts
from .searcher import Part, Searcher

NICENESS = 19
"""Priority of the process: what is watched is often a training run on this machine."""
WORTH = 64
"""Number of unindexed parts below which the first search takes a fraction of a second anyway."""
MOST = 2**30
"""Bytes of an index at which only searches add to it, since there may never be a search."""
LARGEST_PART = 2**26
"""Bytes of a part that is left to searches, so that the process stays small."""


class Job:
    """The parts of one store that are being indexed, by a thread and a process.

    Args:
        searcher: search of the store, which has the index.
        parts: parts that it lacks.

    Raises:
        OSError: The process cannot start.
    """

    def __init__(self, searcher: Searcher, parts: list[Part]) -> None:
        self.searcher, self.parts = searcher, parts
        self.done = 0
        """Number of parts that are dealt with."""
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        command = child_command("view.text_search.text_worker")
        self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        os.setpriority(os.PRIO_PROCESS, self._child.pid, NICENESS)  # before it has threads, which inherit it
        self._thread = threading.Thread(target=self._work, name="turnwise-texts", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether there is more to do."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop at once; the index keeps what it has."""
        self._child.kill()
        self._thread.join()

    def _work(self) -> None:
        """Index part after part; if the process ends early, searches read what is missing."""
        with self._child as child, suppress(OSError, ValueError):  # closes the pipes, which ends the process
            assert child.stdin is not None
            assert child.stdout is not None
            for part in self.parts:
                if not self.searcher.has(part):
                    texts = _ask(part.file, child.stdin, child.stdout)
                    if texts is not None and self.searcher.add(part, texts) > MOST:
                        return
                self.done += 1


class BackgroundIndexer:
    """Indexes the texts of large stores, one store at a time, each in a process that ends with its work."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._offered: WeakKeyDictionary[Searcher, tuple[Path, ...]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def offer(self, searcher: Searcher, snapshot: Snapshot) -> float | None:
        """Begin to index a store, unless there is little to do, or another store is at work.

        Args:
            searcher: search of the store.
            snapshot: episodes of the store.

        Returns:
            The share of the work that is done; ``None`` if there is nothing to wait for. Ask again until then.
        """
        with self._lock:
            job = self._job if self._job is not None and self._job.alive else None
            if job is not None and job.searcher is searcher:
                return job.done / len(job.parts)
            if self._offered.get(searcher) is snapshot.files or searcher.size > MOST:
                return None
            parts = [part for part in searcher.unindexed(snapshot) if _size(part.file) <= LARGEST_PART]
            if len(parts) >= WORTH and job is not None:
                return 0.0
            self._offered[searcher] = snapshot.files
            if len(parts) < WORTH:
                return None
            try:
                self._job = Job(searcher, parts)
            except OSError:
                return None
            return 0.0

    def close(self) -> None:
        """Stop the work at hand."""
        with self._lock:
            if self._job is not None:
                self._job.stop()


def _ask(file: Path, asked: IO[bytes], answers: IO[bytes]) -> PartTexts | None:
    asked.write(os.fsencode(file).hex().encode() + b"\n")
    asked.flush()
    ends: list[int] | None = json.loads(answers.readline())["ends"]
    if ends is None:
        return None
    size = ends[-1] if ends else 0
    data = answers.read(size)
    if len(data) < size:
        raise ValueError("the process ended early")
    return PartTexts(data, ends)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # removed since
        return 0
