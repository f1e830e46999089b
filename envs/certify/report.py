"""The result of certification: one verdict per law, and the certificate that collects them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...verdicts import Status, Verdicts

UNASKED = "cannot be tried over the wire"
"""Beginning of the reason why a law was not tried on a server."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one law.

    Args:
        law: its name, e.g. ``"fork_is_independent"``.
        about: the law in one sentence.
        status: whether it held.
        reason: the violation, the reason for skipping, or a remark on a law that holds; often empty for those.
        reproduce: the call that shows it again; empty where none is needed.
        seconds: how long it took to try.
        traceback: the environment's own traceback, where it raised.
        unsettled: whether a skipped law may still be broken: time ran out, or another finding was in the way.
    """

    law: str
    about: str
    status: Status
    reason: str = ""
    reproduce: str = ""
    seconds: float = 0.0
    traceback: str = ""
    unsettled: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        """Return the verdict that ``Certificate.to_json`` wrote; unknown fields are ignored."""
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        return cls(**{**known, "status": Status(known["status"])})

    @property
    def word(self) -> str:
        """The status; a law that holds with a note, which the certificate prints, says so."""
        return "pass, with a note," if self.status is Status.PASS and self.reason else str(self.status)

    def __str__(self) -> str:
        head = f"{self.status.upper():4}  {self.law}"
        if self.status is Status.PASS:
            return f"NOTE  {self.law}: {self.reason}" if self.reason else head
        lines = [f"{head}: {self.reason}"]
        if self.status is Status.FAIL:
            lines.append(f"      the law: {self.about}")
            lines += [f"      reproduce: {self.reproduce}"] if self.reproduce else []
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Certificate(Verdicts[Verdict]):
    """The verdicts on one environment.

    Args:
        verdicts: one per law, in the order in which they were tried.
        env_id: its id, or the name of its class.
    """

    env_id: str

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the broken laws."""
        return tuple(verdict.law for verdict in self.failed)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """The names of the laws that were skipped and may still be broken."""
        return tuple(verdict.law for verdict in self.verdicts if verdict.unsettled)

    def to_json(self) -> dict[str, Any]:
        """A plain dict."""
        return {
            "env_id": self.env_id,
            "passed": self.passed,
            "verdicts": [{**asdict(verdict), "status": str(verdict.status)} for verdict in self.verdicts],
        }

    def __str__(self) -> str:
        counts = self.counts()
        held = "1 law holds" if counts[Status.PASS] == 1 else f"{counts[Status.PASS]} laws hold"
        head = (
            f"{self.env_id}: {self._word()} ({held}, "
            f"{counts[Status.FAIL]} broken, {counts[Status.SKIP]} not tried; {self.seconds:.1f} s)"
        )
        findings = [str(one) for one in self.failed]
        findings += [str(one) for one in self.verdicts if one.status is Status.PASS and one.reason]
        return "\n".join([head, *findings, *self._skipped()])

    def _word(self) -> str:
        if not self.passed:
            return "NOT certified"
        return "nothing broken so far" if self.unsettled else "certified"

    def _skipped(self) -> list[str]:
        """Return the laws that were not tried, in one line per reason; laws that no client can try by name."""
        by_reason: dict[str, list[str]] = {}
        for verdict in self.verdicts:
            if verdict.status is Status.SKIP:
                by_reason.setdefault(verdict.reason, []).append(verdict.law)
        return [
            f"SKIP  {', '.join(laws) if len(laws) < 4 or reason.startswith(UNASKED) else f'{len(laws)} laws'}: {reason}"
            for reason, laws in by_reason.items()
        ]
