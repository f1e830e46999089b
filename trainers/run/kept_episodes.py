"""Training episodes for readers: see what the policy did at step 50."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ...rollouts.episode import Episode
from ...rollouts.learner_records import LearnerRecord, write_records
from ...rollouts.store import FLUSH_EVERY, FLUSH_SECONDS, EpisodeStore
from ..learning.groups import Group

Keep = Literal["none", "sample", "all"]
"""Training episodes to keep: none, the attempts at the first task of each step, or all."""
STEP = "step"
"""Name of the fingerprint of a kept episode that has the step of the episode."""


def refuse_keeping(keep: Keep, script: str) -> None:
    """Refuse to keep training episodes in a script that plays none.

    Args:
        keep: value of the setting.
        script: name of the script, for the message.

    Raises:
        ValueError: the setting asks for episodes.
    """
    if keep != "none":
        raise ValueError(
            f"keep_episodes = {keep!r}: {script} plays no training episodes and learns from demonstrations, which are "
            "in demonstrations.store or in demonstrations/ in the run's folder; leave the setting out"
        )


class KeptEpisodes:
    """Writes training episodes into a store in the run's folder, each with its step among the fingerprints.

    Args:
        folder: folder of the store; it is created with the first episode.
        keep: episodes to keep.
    """

    def __init__(self, folder: Path, keep: Keep) -> None:
        self._folder, self._keep = folder, keep
        self._store: EpisodeStore | None = None
        self._step = -1
        self._records: list[LearnerRecord] = []
        self._waiting_since = 0.0
        self.kept: frozenset[str] = frozenset()
        """Ids of the episodes of the present step that were stored now, and not before an interruption."""
        self._stack = ExitStack()

    def add(self, step: int, groups: Sequence[Group]) -> None:
        """Keep episodes of a step; a resumed run does not keep an episode twice."""
        again, self._step = step == self._step, step
        if not again:
            self.kept = frozenset()
        chosen = {"none": (), "sample": () if again else groups[:1], "all": groups}[self._keep]
        if not chosen:
            return
        if self._store is None:
            self._store = self._stack.enter_context(EpisodeStore(self._folder))
        there = self._store.ids()
        new = [each for group in chosen for each in group.members if each.episode_id not in there]
        for episode in new:
            self._store.append(replace(episode, fingerprints={**episode.fingerprints, STEP: str(step + 1)}))
        self.kept |= {each.episode_id for each in new}
        if self._keep == "all":  # before the checkpoint: a kill after it must not leave a gap that no step fills
            self._store.flush()

    def learned(self, records: Sequence[LearnerRecord]) -> None:
        """Store the learner's numbers of kept episodes beside them; small steps share a file, as they share a part."""
        if not self._records:
            self._waiting_since = time.monotonic()
        self._records += records
        late = time.monotonic() - self._waiting_since >= FLUSH_SECONDS
        if self._keep == "all" or len(self._records) >= FLUSH_EVERY or late:
            self._write_records()

    def _write_records(self) -> None:
        write_records(self._folder, self._records)
        self._records = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            self._write_records()


def write_episodes(episodes: Iterable[Episode], folder: Path) -> None:
    """Write episodes as a store of their own."""
    with EpisodeStore(folder) as store:
        for episode in episodes:
            store.append(episode)
