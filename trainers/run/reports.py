"""What a run shows and logs: numbers, a progress bar, and episodes to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..learning.groups import Group
from .conclusion import nothing_learned
from .kept_episodes import KeptEpisodes
from .metrics import MetricsLog, StepProgress


class Reports:
    """Logs and shows the numbers of a run, and keeps training episodes.

    Args:
        bar: shows the most telling numbers.
        log: of the main process; ``None`` in the others.
        episodes: of the main process; ``None`` in the others.
    """

    def __init__(self, bar: StepProgress, log: MetricsLog | None = None, episodes: KeptEpisodes | None = None) -> None:
        self.latest: dict[str, float] = {}
        """The last value of each number."""
        self._bar, self._log, self._episodes = bar, log, episodes

    def write(self, step: int, metrics: Mapping[str, float], *, advance: bool = False) -> None:
        """Log numbers, and show the most telling ones.

        Args:
            step: they belong to.
            metrics: the numbers.
            advance: whether one more step is finished.
        """
        if self._log is not None:
            self._log.write(step, metrics)
        self.latest.update(metrics)
        self._bar.show(metrics, advance=advance)
        self._bar.warn(nothing_learned([{"step": step, **metrics}]))

    def has(self, step: int, name: str) -> bool:
        """Return whether this process logged a number at a step."""
        return self._log is not None and self._log.has(step, name)

    def keep(self, step: int, groups: Sequence[Group]) -> None:
        """Keep episodes of a step for readers, if ``keep_episodes`` asks for it."""
        if self._episodes is not None:
            self._episodes.add(step, groups)
