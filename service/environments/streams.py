"""Streams of answers under way: bounded for each session and each client, so that no client takes all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...errors import RequestError


class Streams:
    """Counts the streams of a server.

    Args:
        most: number of streams at a time.
        per_session: number of streams of one session at a time.
        alone: whether the server has one client, who may then use all streams.
    """

    def __init__(self, most: int, per_session: int, *, alone: bool) -> None:
        self._most, self._per_session, self._alone = most, per_session, alone
        self._clients: Counter[str] = Counter()
        self._sessions: Counter[str] = Counter()

    def check(self, client: str, session: str) -> None:
        """Check that another stream fits.

        With several clients, each may have as many streams as it leaves free. So each one that takes all it can
        leaves half of what it found: of 256 streams there is one for each of the first nine such clients.

        Raises:
            RequestError: the session, or the client, has too many streams.
        """
        if self._sessions[session] >= self._per_session:
            raise RequestError("too many calls of this session have no answer yet", code="busy")
        free = self._most - self._clients.total()
        if free <= 0 or (not self._alone and self._clients[client] >= free):
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
