"""The output of a run: numbers, a progress bar, and episodes to read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Self

from ...logs import event
from ...rollouts.learner_records import LearnerRecord
from ..learning.groups import Group
from ..learning.parallel import ProcessGroup
from ..tracking.trackers import Trackers
from .conclusion import LastSuccess, actions_cut, nothing_learned, targets_outside
from .kept_episodes import KeptEpisodes
from .metrics import SHOWN, MetricsLog, StepProgress, in_words, read_metrics
from .run_folder import RunFolder
from .settings import TrainConfig

LOG = logging.getLogger(__name__)
LOGGED = ("episodes", "retries", "unscored", "seconds/step", "tokens_per_second")
"""Numbers of an event besides the most telling ones; ``metrics.jsonl`` has all."""


class Reports:
    """Logs and shows the numbers of a run, and keeps training episodes.

    Args:
        bar: progress bar with the most important numbers.
        log: log of the main process; ``None`` in the others.
        episodes: kept episodes of the main process; ``None`` in the others.
    """

    def __init__(self, bar: StepProgress, log: MetricsLog | None = None, episodes: KeptEpisodes | None = None) -> None:
        self.latest: dict[str, float] = {}
        """The last value of each number."""
        self._bar, self._log, self._episodes = bar, log, episodes
        self._last_success = LastSuccess(read_metrics(log.path) if log is not None else ())

    @classmethod
    def of(cls, config: TrainConfig, folder: RunFolder, world: ProcessGroup, step: int, stack: AsyncExitStack) -> Self:
        """Open the outputs of a configuration.

        Args:
            config: settings of the run.
            folder: folder of the run.
            world: the processes that learn together; the main one reports.
            step: number of finished steps; later lines of an interrupted run are removed.
            stack: stack that closes everything at the end of the run.
        """
        bar = StepProgress(folder.algorithm, config.steps, done=step, enabled=config.progress and world.is_main)
        log = episodes = None
        if world.is_main:
            settings = config.model_dump(mode="json")
            trackers = stack.enter_context(Trackers.start(config.tracking, folder.path, settings, resume_at=step))
            log = stack.enter_context(MetricsLog(folder.path, resume_at=step, trackers=trackers))
            episodes = stack.enter_context(KeptEpisodes(folder.episodes, config.keep_episodes))
        return cls(stack.enter_context(bar), log, episodes)

    def write(self, step: int, metrics: Mapping[str, float], *, advance: bool = False) -> None:
        """Log numbers, and show the most important ones.

        Args:
            step: step that they belong to.
            metrics: numbers by name.
            advance: whether one more step is finished.
        """
        if self._log is not None:
            self._log.write(step, metrics)
            kind = "step" if advance else "evaluation"
            numbers = {name: metrics[name] for name in (*SHOWN, *LOGGED) if name in metrics}
            event(LOG, kind, f"{kind} {step}/{self._bar.total}: {in_words(metrics)}", {"step": step, **numbers})
        self.latest.update(metrics)
        self._bar.show(metrics, advance=advance)
        if self._log is not None:
            line = {"step": step, **metrics}
            self._last_success.see(line)
            if step < self._bar.total:  # the result of the run reports it after the last step
                kind = "success lost" if self._last_success.lost else "nothing learned"
                self._bar.warn(kind, nothing_learned([line], self._last_success.remedy))
            self._bar.warn("actions cut", actions_cut(line))
            self._bar.warn("targets outside", targets_outside(line))

    def warn(self, kind: str, text: str) -> None:
        """Show the first warning of a kind."""
        if self._log is not None:
            self._bar.warn(kind, text)

    def has(self, step: int, name: str) -> bool:
        """Return whether this process logged a number at a step."""
        return self._log is not None and self._log.has(step, name)

    def keep(self, step: int, groups: Sequence[Group]) -> None:
        """Keep episodes of a step for readers, if ``keep_episodes`` asks for it."""
        if self._episodes is not None:
            self._episodes.add(step, groups)

    @property
    def kept(self) -> frozenset[str]:
        """Ids of the episodes of the present step that this process keeps."""
        return self._episodes.kept if self._episodes is not None else frozenset()

    def learned(self, records: Sequence[LearnerRecord]) -> None:
        """Store the learner's numbers of kept episodes."""
        if self._episodes is not None:
            self._episodes.learned(records)
