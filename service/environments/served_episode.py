"""``ServedEpisode``: the state of one episode on a server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ...errors import RequestError
from ...rollouts.hosts import Host
from ...tasks.spec import TaskSpec
from .calls import now
from .catalog import Served


@dataclass(slots=True, eq=False)
class ServedEpisode:
    """One episode.

    Args:
        id: id, which only its client knows.
        client: digest of the client's token.
        served: its environment.
        task: its task.
        connection: connection that its client used last; ``None`` after a broken socket.
    """

    id: str
    client: str
    served: Served
    task: TaskSpec
    connection: object | None
    touched: float = 0.0
    host: Host | None = None
    turn: int = 0
    played: int = 0
    """Number of actions that the environment has answered; ``turn`` may be one ahead."""
    earned: float = 0.0
    """Sum of the rewards so far."""
    over: bool = False
    awaited: bool = False
    """Whether its client still has to ask for its reward; no newer episode makes the server forget it before."""
    related: bool = False
    """Whether it has forks or is one: they may share a process, which no other episode gets."""
    parent: str = ""
    """Id of the episode of which it is a fork."""
    waiting: bool = False
    """Whether it waits for a place."""
    opening: asyncio.Task[dict[str, Any]] | None = None
    """The call that starts it: a reset, or a fork of another episode."""
    last: tuple[int, bytes, asyncio.Task[dict[str, Any]]] | None = None
    """The last turn, a digest of its action, and its answer."""
    request: str | None = None
    """Key that the client gave the request of the last turn, if its protocol has such keys."""
    requests: set[str] = field(default_factory=set)
    """All such keys of the episode."""
    forks: dict[str, asyncio.Task[dict[str, Any]]] = field(default_factory=dict)
    calls: set[asyncio.Future[Any]] = field(default_factory=set)
    queued: int = 0
    """Bytes of the actions without an answer."""
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)
    failed: str = ""
    """Reason for which the server gave up the environment."""

    def repeats(self, key: Any) -> bool:
        """Return whether the last request had this key. Only a text with characters counts as one.

        Raises:
            RequestError: an earlier request had it.
        """
        if not isinstance(key, str) or key not in self.requests:
            return False
        if key != self.request:
            raise RequestError(f"the request {key:.60} took an earlier turn", code="conflict")
        return True

    def named(self, key: Any) -> None:
        """Note the key of the request that took the last turn."""
        self.request = key if isinstance(key, str) and key else None
        if self.request is not None:
            self.requests.add(self.request)

    def touch(self, connection: object | None = None) -> None:
        """Note that its client was here, or work for it ended; a connection is now the client's."""
        self.touched = now()
        if connection is not None:
            self.connection = connection

    def unqueue(self, size: int) -> None:
        """Note that an action of ``size`` bytes has its answer."""
        self.queued -= size
