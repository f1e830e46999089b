"""State of an episode from which others can continue, and observers of an episode's states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..agents.agent import Decision, EpisodeContext, Session
from ..envs.messages import Observation
from .episode import Turn
from .hosts import Host


@dataclass(frozen=True, slots=True)
class EpisodeState:
    """Episode state after an environment step and before the agent's next decision.

    Args:
        turns: turns so far.
        observation: observation that the agent will receive next.
        obs_key: key of the state.
        host: host of the environment in this state.
        session: session of the agent in this state.
        context: the agent's episode context.
    """

    turns: tuple[Turn, ...]
    observation: Observation
    obs_key: str | None
    host: Host
    session: Session
    context: EpisodeContext


class RolloutObserver(Protocol):
    """Observes an attempt as it passes through its states; the attempt waits for it."""

    async def reached(self, state: EpisodeState) -> Decision | None:
        """Called in each state before the agent decides; the time does not count for the episode.

        Returns:
            The action to take in place of the agent's, whose session knows of it already; ``None`` lets the agent act.
        """
        ...

    async def decided(self, state: EpisodeState, decision: Decision) -> None:
        """Called after the agent has decided and before the environment, still as in ``state``, receives the action."""
        ...


class HostProvider(Protocol):
    """Source of an attempt's environment."""

    @property
    def queues(self) -> bool:
        """Whether ``take`` may wait for as long as other episodes take."""
        ...

    async def take(self) -> Host:
        """Return an environment."""
        ...

    def give(self, host: Host, *, reusable: bool) -> None:
        """Return an environment to the source; one that failed in a call is not ``reusable``."""
        ...
