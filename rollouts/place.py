"""A place in an episode that others can go on from, and who watches an episode pass through its places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..agents.agent import Decision, EpisodeContext, Session
from ..envs.messages import Observation
from .episode import Turn
from .hosts import Host


@dataclass(frozen=True, slots=True)
class Place:
    """A state of an episode: what the environment said has been received, and the agent has not heard it yet.

    Args:
        turns: what happened so far.
        observation: what the agent will hear next.
        obs_key: the name of the state.
        host: the environment in this state.
        session: the agent in this state.
        context: what the agent was told of its episode.
    """

    turns: tuple[Turn, ...]
    observation: Observation
    obs_key: str | None
    host: Host
    session: Session
    context: EpisodeContext


class Watcher(Protocol):
    """Sees an attempt pass through its places; the attempt waits for it."""

    async def reached(self, place: Place) -> None:
        """The attempt is here, and will ask the agent when this returns; the time does not count against it."""
        ...

    async def decided(self, place: Place, decision: Decision) -> None:
        """The agent has decided, and the environment, still as in ``place``, will be told when this returns."""
        ...


class Lender(Protocol):
    """Where an attempt gets its environment from."""

    async def take(self) -> Host:
        """An environment."""
        ...

    def give(self, host: Host, *, reusable: bool) -> None:
        """Hand it back; what failed in the middle is not ``reusable``."""
        ...
