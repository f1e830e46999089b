"""Streams of answers under way: bounded for each session and each client, so that each client gets its share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...errors import RequestError


class Streams:
    """Counts the streams of a server.

    With several clients, half of the streams are shares: as many for each client and the operator, whatever the others
    do. Of the other half, each client may have as many as it leaves free.

    Args:
        most: number of streams at a time.
        per_session: number of streams of one session at a time.
        clients: number of clients beside the operator; a single one may use all streams.
    """

    def __init__(self, most: int, per_session: int, *, clients: int) -> None:
        self._most, self._per_session, self._alone = most, per_session, clients <= 1
        most_each = most // (clients + 1)
        self._share = max(most_each // 2, min(most_each, 1))
        self._common = most - self._share * (clients + 1)
        self._clients: Counter[str] = Counter()
        self._sessions: Counter[str] = Counter()

    def check(self, client: str, session: str) -> None:
        """Check that another stream fits.

        Raises:
            RequestError: the session, or the client, has too many streams.
        """
        if self._sessions[session] >= self._per_session:
            raise RequestError("too many calls of this session have no answer yet", code="busy")
        if self._alone:
            fits = self._clients.total() < self._most
        else:
            beyond = {name: max(0, count - self._share) for name, count in self._clients.items()}
            free = self._common - sum(beyond.values())
            fits = self._clients[client] < self._share or beyond.get(client, 0) < free
        if not fits:
            raise RequestError("too many connections", code="full")

    def take(self, client: str, session: str) -> Callable[[], None]:
        """Count a stream; returns the function to call at its end."""
        self._clients[client] += 1
        self._sessions[session] += 1

        def left() -> None:
            for counts, key in ((self._clients, client), (self._sessions, session)):
                counts[key] -= 1
                if not counts[key]:
                    del counts[key]

        return left
