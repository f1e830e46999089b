"""When a run has learnt enough, or no more: judged by its evaluations, which the log of metrics remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class EarlyStop:
    """Watches the evaluations of a run.

    What it says follows from the logged evaluations alone, so a resumed run needs nothing but its log.

    Args:
        patience: stop when the held-out return has not risen for so many evaluations; ``None`` for never.
        stop_at: stop when this share of the held-out tasks is solved; ``None`` for never.
        logged: lines of the run's metrics, in their order, where it is resumed.
    """

    def __init__(
        self, *, patience: int | None = None, stop_at: float | None = None, logged: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        self.patience, self.stop_at = patience, stop_at
        self.best: tuple[int, float] | None = None
        """The step of the best evaluation, the earlier of two alike, and its return."""
        self.reason: str | None = None
        """Why the run is over, in words; ``None`` while it is not."""
        self._since = 0
        for line in logged:
            self.see(int(line["step"]), line)

    def see(self, step: int, metrics: Mapping[str, Any]) -> bool:
        """Take note of the metrics of a step, if there is an evaluation among them; whether it is the best so far."""
        value, success = metrics.get("eval/return"), metrics.get("eval/success")
        if value is None:
            return False
        improved = self.best is None or value > self.best[1]
        if improved:
            self.best, self._since = (step, float(value)), 0
        else:
            self._since += 1
        assert self.best is not None
        if self.stop_at is not None and success is not None and success >= self.stop_at:
            self.reason = f"{success:.0%} of the held-out tasks are solved (eval.stop_at={self.stop_at:g})"
        elif self.patience is not None and self._since >= self.patience:
            self.reason = (
                f"the held-out return has not risen for {self._since} evaluations (eval.patience={self.patience}); "
                f"the best is {self.best[1]:.4g}, at step {self.best[0]}"
            )
        return improved
