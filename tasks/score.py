"""How a finished task is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Score:
    """The judgement of one episode: the world is judged, not the words.

    Args:
        success: the task was solved, wholly.
        checks: named partial results, e.g. ``{"booked": True, "paid": False}``.
        collateral: things that changed and should not have.
        violations: rules that the agent broke.
    """

    success: bool
    checks: Mapping[str, bool] = field(default_factory=dict)
    collateral: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "checks", dict(self.checks))
        object.__setattr__(self, "collateral", tuple(self.collateral))
        object.__setattr__(self, "violations", tuple(self.violations))

    @property
    def fraction(self) -> float:
        """Share of checks that hold, in [0, 1]; 1 or 0 by ``success`` where a task names no checks."""
        return sum(self.checks.values()) / len(self.checks) if self.checks else float(self.success)
