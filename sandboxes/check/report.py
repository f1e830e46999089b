"""What the check suite hands back: one verdict per case, and the report they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ..backend import Capabilities


class Outcome(StrEnum):
    """What became of one case."""

    PASSED = "passed"
    """What is promised was kept; the evidence says what was seen."""
    FAILED = "failed"
    """It was not kept; the evidence says how that showed."""
    NOT_APPLICABLE = "not applicable"
    """The backend does not promise it here, or it could not be tried; the evidence says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one case.

    Args:
        number: of the case; 1 to 48 are hostile, from 101 on they are about the contract.
        name: of the case, e.g. ``"fork bomb"``.
        about: the case in one sentence.
        outcome: whether the promise was kept.
        evidence: what was seen, in words.
        seconds: how long it took.
    """

    number: int
    name: str
    about: str
    outcome: Outcome
    evidence: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.number:>3}  {self.outcome.upper():14}  {self.name}: {self.evidence} ({self.seconds:.1f} s)"


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts on one backend on this machine.

    Args:
        capabilities: what the backend said of itself.
        verdicts: one per case, in the order in which they were tried.
    """

    capabilities: Capabilities
    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Whether no case failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The cases that failed."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is Outcome.FAILED)

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return sum(verdict.seconds for verdict in self.verdicts)

    def counts(self) -> Mapping[Outcome, int]:
        """How many cases passed, failed and were not applicable."""
        counted = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: counted[outcome] for outcome in Outcome}

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
            "verdicts": [{**asdict(verdict), "outcome": str(verdict.outcome)} for verdict in self.verdicts],
        }

    def __str__(self) -> str:
        told = ", ".join(f"{number} {outcome}" for outcome, number in self.counts().items())
        head = f"{self.capabilities.backend} ({self.capabilities.why}): {told}; {self.seconds:.0f} s"
        return "\n".join([head, *map(str, self.failed)])
