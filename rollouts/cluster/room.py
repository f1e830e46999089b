"""Room for workers on a node."""

from __future__ import annotations

import math
from collections.abc import Mapping


def room_of(resources: Mapping[str, float], needs: Mapping[str, float], workers: int) -> int:
    """Return how many workers a node has room for, at most ``workers``.

    Args:
        resources: resources of the node.
        needs: resources of one worker.
        workers: number of workers of the run.
    """
    rooms = [math.floor(resources.get(name, 0.0) / amount + 1e-9) for name, amount in needs.items() if amount]
    return min([workers, *rooms])
