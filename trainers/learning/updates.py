"""Shared steps between collecting episodes and reporting: split them into minibatches, summarize the updates."""

from __future__ import annotations

from collections.abc import Sequence

from ...tasks.rng import Rng
from .learner import Update


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
