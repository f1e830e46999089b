"""``Latest``: the ids of each client's latest episodes of some kind, so that older ones can be forgotten."""

from __future__ import annotations

from collections import defaultdict


class Latest:
    """Ids by client, oldest first.

    Args:
        most: number of ids of one client.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def add(self, client: str, id: str) -> list[str]:
        """Add an id; returns the oldest ones that are too many, which the caller then discards."""
        ids = self._ids[client]
        ids[id] = None
        return list(ids)[: max(0, len(ids) - self._most)]

    def discard(self, client: str, id: str) -> None:
        """Remove an id, if it is here."""
        self._ids[client].pop(id, None)
