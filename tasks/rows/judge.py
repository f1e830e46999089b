"""Scoring a world: compare its changes with the required, permitted and forbidden ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..score import Score
from .database import Change
from .expected import Matcher, May, Must, Refusal
from .pairing import paired


class Expecting(Protocol):
    """The expected end of a task."""

    @property
    def must(self) -> Sequence[Must]:
        """Required changes, each a named check."""

    @property
    def may(self) -> Sequence[May]:
        """Permitted changes, besides those that reading causes."""

    @property
    def answer(self) -> Matcher | None:
        """The required answer; ``None`` if the task has no question."""

    @property
    def refusal(self) -> Refusal | None:
        """Required refusal; ``None`` if the task must be done."""


@dataclass(frozen=True)
class Ending:
    """How an agent ended a task.

    Args:
        done: whether it reported the task as done, with ``answer``.
        answer: its answer.
        reason: reason of its refusal, if it refused.
        evidence: fact that it gave for the refusal.
    """

    done: bool = False
    answer: Any = None
    reason: str | None = None
    evidence: Any = None


def judge(
    task: Expecting,
    changes: Sequence[Change],
    ending: Ending | None,
    idle: Mapping[str, frozenset[str]],
    violations: Sequence[str] = (),
) -> Score:
    """Judge whether a task is solved.

    Args:
        task: expectations of the task.
        changes: changes of the world since the episode began.
        ending: how the agent ended the task; ``None`` if it did not.
        idle: columns that reading changes, by table.
        violations: rules that were broken on the way.
    """
    may = (replace(one, columns=one.columns | idle.get(one.table, frozenset())) for one in task.may)
    allowed = (*may, *(May(table, "update", columns) for table, columns in idle.items()))
    # Pair changes that nothing permits first: a change that is both permitted and required counts as required.
    urgent = sorted(changes, key=lambda change: any(may.allows(change) for may in allowed))
    pairs = paired(urgent, task.must, lambda change, must: must.met_by(change, idle.get(change.table, frozenset())))
    met = set(pairs.values())
    checks: dict[str, bool] = {}
    for number, must in enumerate(task.must):
        checks[_fresh(must, checks)] = number in met
    left = [change for number, change in enumerate(urgent) if number not in pairs]
    collateral = tuple(str(change) for change in left if not any(may.allows(change) for may in allowed))
    if task.refusal is not None:
        named = ending is not None and ending.reason == task.refusal.reason
        checks["refused"] = named
        checks["evidence"] = named and ending is not None and task.refusal.evidence.matches(ending.evidence)
    else:
        checks["finished"] = ending is not None and ending.done
        if task.answer is not None:
            given = ending is not None and ending.done and ending.answer is not None
            checks["answer"] = given and ending is not None and task.answer.matches(ending.answer)
    success = all(checks.values()) and not collateral and not violations
    return Score(success, checks, collateral, tuple(violations))


def _fresh(must: Must, taken: dict[str, bool]) -> str:
    """Return a name for a check that no other check has."""
    name, number = must.name, 2
    while name in taken:
        name, number = f"{must.name} ({number})", number + 1
    return name
