"""Places on a server: at most ``capacity`` episodes at a time, and a bounded queue for more."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from ...errors import RequestError


class Places:
    """Counts the episodes of a server.

    Args:
        capacity: number of episodes at a time.
        per_client: number of episodes of one client at a time.
        waiting: number of requests that may wait for a place.
    """

    def __init__(self, capacity: int, per_client: int, waiting: int) -> None:
        self.capacity, self._per_client, self._most_waiting = capacity, per_client, waiting
        self._used: Counter[str] = Counter()
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()
        self.draining = False
        """Whether no episode may start any more."""

    @property
    def load(self) -> int:
        """Number of places in use."""
        return self._used.total()

    async def acquire(self, client: str, wait: float, waits: Callable[[], None] = lambda: None) -> None:
        """Take a place for a client; those who wait get one in their order.

        Args:
            client: the client.
            wait: maximum seconds to wait.
            waits: function to call before waiting; what it raises refuses the place.

        Raises:
            RequestError: there is none within ``wait`` seconds, or the server is draining.
        """
        self._open()
        if self._fits(client):  # a waiter that fitted would have a place: see ``release``
            self._take(client)
            return
        if wait <= 0:
            raise self._full(client)
        if len(self._waiting) >= self._most_waiting:
            raise self._full(client, f", and {self._most_waiting} episodes wait for one, the limit of `waiting`")
        waits()
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((client, mine))
        self._serve()
        try:
            async with asyncio.timeout(wait):
                await mine
        except BaseException as error:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                self.release(client)  # the place came in the same moment
            self._waiting = deque(each for each in self._waiting if each[1] is not mine)
            if isinstance(error, TimeoutError):
                raise self._full(client) from None
            raise

    def release(self, client: str) -> None:
        """Give a place back."""
        self._used[client] -= 1
        if not self._used[client]:
            del self._used[client]
        self._serve()

    def drain(self) -> None:
        """Refuse every episode from now on, also to those that wait."""
        self.draining = True
        for _, each in self._waiting:
            if not each.done():
                each.set_exception(_draining())

    def _serve(self) -> None:
        for client, each in list(self._waiting):
            if not each.done() and self._fits(client):
                self._take(client)
                self._waiting.remove((client, each))
                each.set_result(None)

    def _take(self, client: str) -> None:
        self._used[client] += 1

    def _fits(self, client: str) -> bool:
        return self.load < self.capacity and self._used[client] < self._per_client

    def _open(self) -> None:
        if self.draining:
            raise _draining()

    def _full(self, client: str, queue: str = "") -> RequestError:
        if self.load >= self.capacity:
            used = f"the server is full: {self.load} of {self.capacity} places are in use"
            return RequestError(used + queue, code="full")
        return RequestError(
            f"this client has all of its {self._per_client} places{queue}; close an episode", code="full"
        )


def _draining() -> RequestError:
    return RequestError("the server is shutting down and starts no more episodes", code="draining")
