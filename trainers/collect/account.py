"""The account of a run's training episodes: each that was drawn is trained, failed or open, and counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...rollouts.episode import Episode


@dataclass(slots=True)
class EpisodeAccount:
    """Counts of a whole run, resumed ones included: ``drawn = trained + failed + open``.

    The collector counts ``drawn`` when it draws tasks, and the others when their step has been learned, from the
    episodes themselves. So an episode that is lost or counted twice shows in the sum.
    """

    drawn: int = 0
    """Episodes of all tasks that were drawn."""
    trained: int = 0
    """Scored episodes of steps that were learned, including groups that dynamic sampling set aside."""
    failed: Counter[str] = field(default_factory=Counter)
    """Unscored episodes of these steps, by outcome."""

    def draw(self, episodes: int) -> None:
        """Count the episodes of drawn tasks."""
        self.drawn += episodes

    def close(self, episodes: Iterable[Episode]) -> None:
        """Count the episodes of a learned step."""
        for episode in episodes:
            if episode.scored:
                self.trained += 1
            else:
                self.failed[str(episode.outcome)] += 1

    def metrics(self, open: int) -> dict[str, float]:
        """Return the numbers for a step's metrics.

        Args:
            open: number of episodes that the collector has drawn and not seen trained, by its own books.
        """
        failed = {f"rollouts/failed_{kind}": float(count) for kind, count in sorted(self.failed.items())}
        numbers = {"rollouts/drawn": self.drawn, "rollouts/trained": self.trained, "rollouts/open": open}
        return {name: float(number) for name, number in numbers.items()} | failed

    def state_dict(self) -> Mapping[str, Any]:
        """Return what was trained and what failed, for JSON; a resumed run draws open episodes again."""
        return {"trained": self.trained, "failed": dict(self.failed)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore ``state_dict()``."""
        self.trained, self.failed = int(state.get("trained", 0)), Counter(state.get("failed", {}))
        self.drawn = self.trained + self.failed.total()
