"""The score of a finished task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ContractError


@dataclass(frozen=True, slots=True)
class Score:
    """The judgment of one episode, by the state of the world and not by the agent's claims.

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

    @classmethod
    def of(cls, content: Any) -> Score:
        """Return what a judge returned as a score: a plain ``bool`` is the success.

        Raises:
            ContractError: it is neither a score nor a truth value.
        """
        return content if isinstance(content, Score) else cls(_truth(content, "a judgment"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "success", _truth(self.success, "success"))
        try:
            checks = dict(self.checks)
        except (TypeError, ValueError):
            text = f"checks must map names to truth values, as in checks={{'booked': True}}; got {self.checks!r:.80}"
            raise ContractError(text) from None
        object.__setattr__(self, "checks", {name: _truth(held, f"check {name!r}") for name, held in checks.items()})
        object.__setattr__(self, "collateral", tuple(self.collateral))
        object.__setattr__(self, "violations", tuple(self.violations))

    @property
    def fraction(self) -> float:
        """Share of checks that hold, in [0, 1]; 1 or 0 by ``success`` where a task names no checks."""
        return sum(self.checks.values()) / len(self.checks) if self.checks else float(self.success)


def _truth(value: Any, what: str) -> bool:
    """Return a truth value as Python's own: NumPy's are not JSON."""
    if isinstance(value, bool):
        return value
    plain = value.item() if getattr(value, "shape", None) == () else value
    if isinstance(plain, (bool, int)) and plain in (0, 1):
        return bool(plain)
    raise ContractError(f"{what} must be true or false; got {value!r:.80}")
