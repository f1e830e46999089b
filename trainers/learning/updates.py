"""What every script does between collecting episodes and reporting: cut them into minibatches, sum up the updates."""

from __future__ import annotations

from collections.abc import Sequence

from ...tasks.rng import Rng
from .learner import Update


def minibatches(count: int, size: int | None, rng: Rng) -> list[list[int]]:
    """``range(count)``, shuffled and cut into as few parts of at most ``size`` as can be, of even length.

    Args:
        count: how many there are.
        size: the most in one part; ``None`` for all in one.
        rng: of the order.
    """
    order = list(range(count))
    rng.shuffle(order)
    parts = parts_of(count, size)
    return [order[count * i // parts : count * (i + 1) // parts] for i in range(parts)]


def parts_of(count: int, size: int | None) -> int:
    """Into how many minibatches ``count`` are cut."""
    return -(-count // (size or max(count, 1)))


def summary(updates: Sequence[Update]) -> dict[str, float]:
    """Means over the updates that moved the weights or were refused (maxima of what ends in ``_max``), and counts."""
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
