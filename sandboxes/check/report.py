"""The result of the check suite: one verdict per case, and the report of them all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...verdicts import Status, Verdicts
from ..backend import Capabilities


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one case.

    Args:
        number: Number of the case: 1 to 48 are hostile, from 101 on they test the contract.
        name: Name of the case, e.g. ``"fork bomb"``.
        about: the case in one sentence.
        status: whether the promise was kept; skipped where the backend does not make it here.
        evidence: Observations in words.
        seconds: how long it took.
    """

    number: int
    name: str
    about: str
    status: Status
    evidence: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.number:>3}  {self.status.upper():4}  {self.name}: {self.evidence} ({self.seconds:.1f} s)"


@dataclass(frozen=True, slots=True)
class Report(Verdicts[Verdict]):
    """The verdicts on one backend on this machine.

    Args:
        verdicts: one per case, in the order in which they were tried.
        capabilities: Capabilities that the backend reports.
    """

    capabilities: Capabilities

    def to_json(self) -> dict[str, Any]:
        """A plain dict."""
        limits = {
            str(limit): {"enforcement": str(held.enforcement), "how": held.how}
            for limit, held in self.capabilities.limits.items()
        }
        return {
            "backend": self.capabilities.backend,
            "why": self.capabilities.why,
            "limits": limits,
            "passed": self.passed,
            "verdicts": [{**asdict(verdict), "status": str(verdict.status)} for verdict in self.verdicts],
        }

    def __str__(self) -> str:
        counts = self.counts()
        totals = f"{counts[Status.PASS]} passed, {counts[Status.FAIL]} failed, {counts[Status.SKIP]} skipped"
        head = f"{self.capabilities.backend} ({self.capabilities.why}): {totals}; {self.seconds:.0f} s"
        return "\n".join([head, *map(str, self.failed)])
