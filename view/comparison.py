"""Two runs on the same tasks: the verdict of ``evals``, and the tasks on which they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import compute

from ..envs.messages import Action, Observation
from ..errors import UsageError
from ..evals.compare import Comparison, check_sources, compare
from ..evals.summary import task_of
from ..rollouts.columns import text_in
from ..rollouts.episode import Episode, Outcome, Turn
from ..tasks.score import Score
from ..tasks.spec import Split, TaskSpec
from .episode_index import FAILURES, Snapshot

LISTED = 500
"""Most tasks that are listed."""
ENDS = (None, None)
"""Bounds of all steps."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sides of a comparison.

    Args:
        name: name to show.
        store: folder of the episode store.
        snapshot: the store's episodes.
        steps: first and last training step whose episodes count, inclusive; ``None`` for no bound.
    """

    name: str
    store: Path
    snapshot: Snapshot
    steps: tuple[int | None, int | None] = ENDS

    @property
    def label(self) -> str:
        """The name, with the steps if only some count."""
        low, high = self.steps
        if self.steps == ENDS:
            return self.name
        return f"{self.name}, steps {'first' if low is None else low} to {'last' if high is None else high}"


def comparison(a: Side, b: Side) -> dict[str, Any]:
    """Compare two sides with the statistics of ``turnwise compare``, and list their tasks.

    Args:
        a: the baseline.
        b: the other side.

    Returns:
        The comparison with its verdicts, the number of shared tasks by result, and the tasks, those with different
        results first.

    Raises:
        UsageError: Both sides are the same, or cannot be compared.
    """
    if (a.store, a.steps) == (b.store, b.steps):
        raise UsageError("both sides are the same episodes; choose another run, store or range of steps")
    names = (a.label, b.label) if a.label != b.label else (f"{a.label} ({a.store.name})", f"{b.label} ({b.store.name})")
    check_sources({names[0]: a.store, names[1]: b.store})
    played = [outcomes(side) for side in (a, b)]
    found = compare(*played, names=names)
    tasks = _tasks(*played)
    return {
        "comparison": found.to_json(),
        "differences": _differences(found),
        "counts": Counter(task["result"] for task in tasks),
        "tasks": tasks[:LISTED],
        "more": max(0, len(tasks) - LISTED),
    }


def _differences(found: Comparison) -> list[dict[str, Any]]:
    """Return one row for each compared quantity, with its verdict in words."""
    rows = [(found.success, True), *((level, True) for level in found.levels), (found.mean_return, False)]
    return [
        {
            "name": each.name,
            "a": each.a.value,
            "b": each.b.value,
            "difference": [each.difference.value, each.difference.low, each.difference.high],
            "paired": each.paired,
            "rate": rate,
            "verdict": found.verdict_on(each, points=rate),
        }
        for each, rate in rows
    ]


def outcomes(side: Side) -> list[Episode]:
    """Return a side's episodes without their conversations, which statistics do not read."""
    table = side.snapshot.table
    for bound, inside in zip(side.steps, (compute.greater_equal, compute.less_equal), strict=True):
        if bound is not None:
            table = table.filter(compute.fill_null(inside(table["step"], bound), False))
    names = ("episode_id", "env_id", "group_id", "outcome", "success", "total_reward", "error", *FAILURES)
    tasks = ("family", "template", "level", "seed", "split")
    return [_outcome(row) for row in table.select([*names, *tasks]).to_pylist()]


def _outcome(row: dict[str, Any]) -> Episode:
    turn = Turn(Observation(()), Action(""), row["total_reward"] if row["total_reward"] is not None else 0.0)
    return Episode(
        text_in(row["episode_id"]),
        text_in(row["env_id"]),
        TaskSpec(text_in(row["family"]), text_in(row["template"]), row["level"], row["seed"], Split(row["split"])),
        text_in(row["group_id"]),
        (turn,),
        Outcome(row["outcome"]),
        score=Score(bool(row["success"])),
        error=row["error"],
        after_action=row["after_action"] or 0,
        redrawn=row["redrawn"] or 0,
    )


def _tasks(a: Sequence[Episode], b: Sequence[Episode]) -> list[dict[str, Any]]:
    """Return the tasks that both sides played: those that the baseline solves more often, then the reverse."""
    of_a, of_b = (_by_task(side) for side in (a, b))
    rows = [_task(of_a[task], of_b[task]) for task in of_a if task in of_b]
    order = {"lost": 0, "gained": 1, "same": 2}
    return sorted(rows, key=lambda row: (order[row["result"]], -abs(row["b"]["rate"] - row["a"]["rate"])))


def _by_task(episodes: Sequence[Episode]) -> dict[tuple[str, str], list[Episode]]:
    found: dict[tuple[str, str], list[Episode]] = {}
    for episode in episodes:
        if episode.scored:
            found.setdefault(task_of(episode), []).append(episode)
    return found


def _task(a: list[Episode], b: list[Episode]) -> dict[str, Any]:
    rates = [sum(each.success for each in side) / len(side) for side in (a, b)]
    result = "same" if rates[0] == rates[1] else "gained" if rates[0] < rates[1] else "lost"
    shown = {"gained": (False, True), "lost": (True, False)}.get(result, (a[0].success, b[0].success))
    task = a[0].task
    return {
        "env_id": a[0].env_id,
        "result": result,
        **{name: getattr(task, name) for name in ("template", "level", "seed", "split")},
        **{
            name: {
                "solved": sum(each.success for each in side),
                "played": len(side),
                "rate": rate,
                "reward": sum(each.total_reward for each in side) / len(side),
                "episode": next((each for each in side if each.success == wanted), side[0]).episode_id,
            }
            for name, side, rate, wanted in zip("ab", (a, b), rates, shown, strict=True)
        },
    }
