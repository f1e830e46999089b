"""``Affinity``: assigns sessions to replicas, so that each keeps its prefix cache and none gets too many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from math import ceil
from typing import Generic, Protocol, TypeVar

from ...tasks.rng import stable_hash

SLACK = 1.15
"""Largest number of requests of a replica when a session is assigned to it, relative to the mean of all replicas; at
least the mean, rounded up."""
REMEMBERED = 65_536
"""Number of sessions whose replica is remembered; the ones used least recently are forgotten."""


class Loaded(Protocol):
    """A replica, as far as the choice of one needs it."""

    @property
    def address(self) -> str: ...

    @property
    def load(self) -> int: ...

    @property
    def up(self) -> bool: ...


R = TypeVar("R", bound=Loaded)


class Affinity(Generic[R]):
    """Assigns sessions to replicas: consistent hashing with bounded loads (Mirrokni et al., arXiv 1608.01350).

    A new session gets the first replica, in an order of its own, that has at most ``SLACK`` times the mean number of
    requests, and keeps it: its prefix cache has the session's history. When a replica fails, only its own sessions
    move, and they return with it.

    Args:
        remembered: number of sessions to remember.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._replicas: OrderedDict[str, R] = OrderedDict()
        self._remembered = remembered

    def ordered(self, replicas: Sequence[R], session: str, last: Collection[R] = ()) -> list[R]:
        """Return the replicas in the order in which to try them for a request of a session.

        Args:
            replicas: replicas to order; the mean is that of those that are up.
            session: id of the session; a request without one takes the replica with the fewest requests.
            last: replicas to try after all others.
        """
        if not session:
            return sorted(replicas, key=lambda replica: (replica in last, replica.load))
        own, bound = self._replicas.get(session), largest_load([replica for replica in replicas if replica.up])
        spread = preferred(replicas, session)  # the sort is stable: among equals, the session's preference decides
        return sorted(
            spread, key=lambda replica: (replica in last, replica is not own, max(0, replica.load + 1 - bound))
        )

    def remember(self, session: str, replica: R) -> None:
        """Keep the session at a replica from now on."""
        if session:
            self._replicas[session] = replica
            self._replicas.move_to_end(session)
            if len(self._replicas) > self._remembered:
                self._replicas.popitem(last=False)


def largest_load(replicas: Sequence[Loaded]) -> int:
    """Return the largest number of requests that a replica may have after one more is assigned."""
    mean = (sum(replica.load for replica in replicas) + 1) / max(1, len(replicas))
    return max(ceil(mean), int(SLACK * mean))


def preferred(replicas: Sequence[R], session: str) -> list[R]:
    """Return replicas in the order in which a session prefers them, which is the same in every process.

    Rendezvous hashing (Thaler and Ravishankar, 1998): when a replica leaves, only its own sessions move.
    """
    return sorted(replicas, key=lambda replica: stable_hash(session, replica.address), reverse=True)
