"""Shared steps between collecting episodes and reporting: minibatches, their updates, and a summary of these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...tasks.rng import Rng
from .clips import ClipCounts
from .learner import Learner, Update
from .objective import Objective
from .rows import Rows


def minibatches(count: int, size: int | None, rng: Rng) -> list[list[int]]:
    """Shuffle ``range(count)`` and cut it into as few even parts of at most ``size`` as possible.

    Args:
        count: number of items.
        size: the most in one part; ``None`` for all in one.
        rng: random generator of the order.
    """
    order = list(range(count))
    rng.shuffle(order)
    parts = parts_of(count, size)
    return [order[count * i // parts : count * (i + 1) // parts] for i in range(parts)]


def parts_of(count: int, size: int | None) -> int:
    """Return the number of minibatches of ``count`` items."""
    return -(-count // (size or max(count, 1)))


def take_steps(
    learner: Learner, parts: Iterable[Rows], objective: Objective, *, version: int, clips: ClipCounts | None = None
) -> list[Update]:
    """Make one optimizer step on each part, until one is refused because the policy has moved too far.

    Args:
        learner: learner of the policy.
        parts: minibatches.
        objective: the loss.
        version: policy version of the step.
        clips: counts of clipped tokens to add to; ``None`` to count nothing.
    """
    updates: list[Update] = []
    for part in parts:
        updates.append(learner.step(part, objective, version=version, clips=clips is not None))
        if clips is not None:
            clips.add(updates[-1].clips)
        if updates[-1].aborted:
            break
    return updates


def summary(updates: Sequence[Update]) -> dict[str, float]:
    """Return means over the updates that moved the weights or were refused (maxima for ``_max``), and counts."""
    seen: dict[str, list[float]] = {}
    for update in updates:
        if update.stepped or update.aborted:
            for name, value in update.metrics.items():
                seen.setdefault(name, []).append(value)
    means = {name: max(v) if name.endswith("_max") else sum(v) / len(v) for name, v in seen.items()}
    return means | {
        "updates": float(sum(update.stepped for update in updates)),
        "updates_skipped": float(sum(not update.stepped for update in updates)),
        "aborted": float(any(update.aborted for update in updates)),
    }
