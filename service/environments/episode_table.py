"""``EpisodeTable``: the episodes of a server by id, the ids that are used up, and how many ended ones are kept."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ...envs.remote.frames import EPISODE
from ...errors import RequestError
from ...rollouts.hosts import Host
from ...tasks.spec import TaskSpec
from .calls import now
from .catalog import Served
from .latest import Latest
from .served_episode import ServedEpisode

FAILED = 256
"""Number of failed episodes whose reason is kept; a limit, so that a flood of them cannot fill the memory."""
ENDED = 256
"""Number of ended episodes of one client whose last answer is kept until the client closes them."""
AWAITED = 16_384
"""Number of further ones whose reward their client has yet to ask for, as NeMo Gym does after a whole run."""
BACK = 15.0
"""Seconds that a server that stops waits for a client without a connection; ORS clients ping every 10."""
REMEMBERED = 10_000
"""Number of closed episodes whose ids are refused, so that a late frame cannot start them again."""


class EpisodeTable:
    """Episodes by id."""

    def __init__(self) -> None:
        self._open: dict[str, ServedEpisode] = {}
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._failed: OrderedDict[str, None] = OrderedDict()
        self._ended, self._awaited = Latest(ENDED), Latest(AWAITED)

    def __len__(self) -> int:
        return len(self._open)

    @property
    def hosts(self) -> list[Host]:
        """Hosts of the open episodes, forks included."""
        return [episode.host for episode in self._open.values() if episode.host is not None]

    def playing(self, since: float) -> int:
        """Return the number of episodes in play: a call is in progress, or the client was here and may act again.

        Args:
            since: time from which a connected client must have sent a request, or received its answer.
        """
        return sum(self._in_play(episode, since) for episode in self._open.values())

    def _in_play(self, episode: ServedEpisode, since: float) -> bool:
        if any(not call.done() for call in episode.calls):
            return not episode.waiting
        limit = since if episode.connection is not None else now() - BACK
        return episode.host is not None and episode.touched >= limit

    def find(self, client: str, id: Any, connection: object | None) -> ServedEpisode:
        """Return an episode of a client, and attach it to its connection.

        Raises:
            RequestError: the client has no such episode.
        """
        episode = self._open.get(id) if isinstance(id, str) else None
        if episode is None or episode.client != client:
            raise RequestError("there is no such episode here (it was closed, or the server restarted)", code="lost")
        episode.touch(connection)
        return episode

    def owner(self, id: str) -> str | None:
        """Return the client of an episode, or ``None`` if there is no such episode."""
        episode = self._open.get(id)
        return None if episode is None else episode.client

    def detach(self, connection: object) -> None:
        """Detach the episodes of a broken connection; they wait for their client."""
        for episode in self._open.values():
            if episode.connection is connection:
                episode.connection, episode.touched = None, now()

    def bar(self, id: str) -> None:
        """Refuse an id of no open episode from now on, also for an episode that has not started yet."""
        self._forget(id)

    def _added(self, id: Any, client: str, served: Served, task: TaskSpec, connection: object) -> ServedEpisode:
        if not isinstance(id, str) or not EPISODE.fullmatch(id):
            raise RequestError("an episode's id must be 32 random hex digits", code="bad_frame")
        if id in self._closed:
            raise RequestError("this episode was closed", code="lost")
        episode = self._open[id] = ServedEpisode(id, client, served, task, connection, now())
        return episode

    def _keep_failed(self, id: str) -> None:
        """Keep a failed episode, so that its client learns the reason, and forget the oldest ones."""
        self._failed[id] = None
        while len(self._failed) > FAILED:
            self._forget(next(iter(self._failed)))

    def _keep_ended(self, episode: ServedEpisode) -> None:
        """Keep an ended episode, unless it was closed meanwhile, and forget its client's oldest ones."""
        if episode.id in self._open:
            self._awaited.discard(episode.client, episode.id)
            for old in (self._awaited if episode.awaited else self._ended).add(episode.client, episode.id):
                self._forget(old)

    def _forget(self, id: str) -> None:
        episode = self._open.pop(id, None)
        if episode is not None:
            self._ended.discard(episode.client, id)
            self._awaited.discard(episode.client, id)
        if episode is not None and (parent := self._open.get(episode.parent)) is not None:
            parent.forks.pop(id, None)
        self._failed.pop(id, None)
        self._closed[id] = None
        while len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)
