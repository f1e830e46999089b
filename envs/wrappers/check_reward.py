"""``CheckReward``: partial credit from the named checks of the score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium

from ...errors import UsageError
from ...tasks.score import Score
from ..messages import ActionLike
from .base import Judging, Resets, Resetting, Stepping, Steps, TurnWrapper


class CheckReward(TurnWrapper):
    """Replace the reward by the weighted share Φ of checks that hold.

    ``"difference"`` gives Φ(s′) − Φ(s) at every turn: a check that is met pays once, one that is undone costs as much,
    and going round in circles pays nothing, since the rewards sum to Φ(end) − Φ(start). ``"end"`` gives Φ(end) at the
    end and 0 before. Where a task names no checks, Φ is 1 for success and 0 otherwise. Differences judge the world at
    every turn; certification holds ``judge`` to having no effect.

    Args:
        env: the environment.
        when: ``"difference"`` or ``"end"``.
        weights: the weight of each check; 1 for those not named.

    Raises:
        UsageError: another word, or a negative weight.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        when: Literal["difference", "end"] = "difference",
        weights: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(env, when=when, weights=weights)
        if when not in ("difference", "end"):
            raise UsageError(f"rewards from checks are paid as a 'difference' or at the 'end'; got {when!r}")
        if negative := [name for name, weight in (weights or {}).items() if not weight >= 0]:
            raise UsageError(f"the weight of check {negative[0]!r} is negative")
        self._when, self._weights = when, dict(weights or {})
        self._potential = 0.0

    def resetting(self, seed: int | None, options: Mapping[str, Any] | None) -> Resets:
        """Start an episode, and measure which checks hold."""
        reset = yield Resetting(seed, options)
        if self._when == "difference":
            self._potential = self.potential((yield Judging()))
        return reset  # type: ignore[no-any-return]

    def stepping(self, action: ActionLike) -> Steps:
        """Pay for the checks that have changed."""
        observation, _, terminated, truncated, info = yield Stepping(action)
        if self._when == "end":
            return observation, self.potential(info["score"]) if "score" in info else 0.0, terminated, truncated, info
        before = self._potential
        self._potential = self.potential(info["score"] if "score" in info else (yield Judging()))
        return observation, self._potential - before, terminated, truncated, info

    def potential(self, score: Score) -> float:
        """Return Φ, the weighted share of checks that hold, in [0, 1]."""
        weights = {name: self._weights.get(name, 1.0) for name in score.checks}
        total = sum(weights.values())
        if not total:
            return float(score.success)
        return sum(weights[name] for name, holds in score.checks.items() if holds) / total
