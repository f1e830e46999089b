"""Decide from the logged evaluations whether a run has learned enough, or has stopped learning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


class EarlyStop:
    """Watches the evaluations of a run.

    The decision follows from the logged evaluations alone, so a resumed run needs only its log.

    Args:
        patience: number of evaluations without a rise of the held-out return before stopping; ``None`` for no limit.
        stop_at: share of solved held-out tasks at which to stop; ``None`` for no limit.
        logged: lines of a resumed run's metrics, in their order.
    """

    def __init__(
        self, *, patience: int | None = None, stop_at: float | None = None, logged: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        self.patience, self.stop_at = patience, stop_at
        self.best: tuple[int, float] | None = None
        """Step and return of the best evaluation; of equal ones, the earlier."""
        self.reason: str | None = None
        """Human-readable reason to stop; ``None`` to continue."""
        self._since = 0
        for line in logged:
            self.see(int(line["step"]), line)

    def see(self, step: int, metrics: Mapping[str, Any]) -> bool:
        """Process the metrics of a step; return whether they have an evaluation that is the best so far.

        An evaluation whose return is not finite, or unknown since the policy failed every episode, does not count as a
        rise.
        """
        value, success = metrics.get("eval/return"), metrics.get("eval/success")
        number = math.nan if value is None else float(value)
        known = math.isfinite(number)
        improved = known and (self.best is None or number > self.best[1])
        if improved:
            self.best, self._since = (step, number), 0
        elif self.best is None or not (known or metrics.get("eval/episodes")):
            return False
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
