"""Forked states: how good several utterances in one state are, measured by rollouts.

An episode is played from a reset, and one of its states is drawn, each with equal probability. There the agent speaks
``utterances`` times, and each time ``rollouts`` paths continue with what it said: their mean return estimates Q of the
utterance under the policy that plays. All paths are complete records with their branching points, so a reader needs
no more than the episodes (``trainers/collect/forked_states.py``), and costs are counted as in any other tree.

The length of an episode is unknown before it ends, so the state is drawn by reservoir sampling: the n-th state replaces
the one before it with probability 1/n. For T turns, this forks the environment 1 + 1/2 + … + 1/T times on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pydantic

from ..agents.agent import Closable, Decision, Forkable
from ..config import Config
from ..errors import UsageError
from ..tasks.rng import Rng
from .branching import Forks, Paths, forked, together
from .episode import Episode, Fork
from .episode_request import EpisodeRequest
from .episode_state import EpisodeState
from .slot import Slot


class ForkedStates(Config):
    """Play several utterances in a state of an episode, each several times to its end."""

    strategy: Literal["forked-states"] = "forked-states"
    """Name of the strategy."""
    utterances: int = pydantic.Field(default=4, ge=2)
    """Utterances in each state."""
    rollouts: int = pydantic.Field(default=4, ge=1)
    """Paths that continue with each utterance."""

    @property
    def size(self) -> int:
        """Number of episodes per task: the one that is forked, and all paths from its state."""
        return 1 + self.utterances * self.rollouts

    async def play(self, paths: Paths, size: int) -> list[Episode]:
        """Play an episode, and then the paths from one of its states.

        Raises:
            UsageError: ``size`` is not that of this strategy, or the agent's sessions cannot be forked.
        """
        if size != self.size:
            raise UsageError(f"{self.utterances} × {self.rollouts} paths and their origin are {self.size}, not {size}")
        request = paths.request(0)
        episode, keeper = await paths.play(request, paths.pool, watch=lambda slot: _Keeper(paths, request))
        if keeper is None:
            return [episode]
        try:
            branches = await self._from(paths, request, keeper.state) if keeper.state is not None else []
            return [episode, *branches]
        finally:
            await keeper.stop()

    async def _from(self, paths: Paths, request: EpisodeRequest, state: EpisodeState) -> list[Episode]:
        provider = Forks(state.host)
        try:
            found = await together(
                self._utterance(
                    paths, provider, state, Fork(request.episode_id, (request.episode_id,) * len(state.turns)), u
                )
                for u in range(self.utterances)
            )
        finally:
            await provider.close(origin=False)
        return [episode for each in found for episode in each]

    async def _utterance(
        self, paths: Paths, provider: Forks, state: EpisodeState, fork: Fork, number: int
    ) -> list[Episode]:
        first = 1 + number * self.rollouts
        request = paths.request(first, fork)
        requests = [
            paths.request(first + other, Fork(request.episode_id, (*fork.owners, request.episode_id)))
            for other in range(1, self.rollouts)
        ]
        episode, observer = await paths.play(
            request, provider, origin=state, watch=lambda slot: _Repeater(paths, requests, len(state.turns) + 1, slot)
        )
        return [episode, *(observer.found if observer is not None else ())]


class _Keeper:
    """Observes the episode that is forked, and keeps one of its states."""

    def __init__(self, paths: Paths, request: EpisodeRequest) -> None:
        self.state: EpisodeState | None = None
        self._paths = paths
        self._rng = Rng("forked state", paths.options.seed, request.episode_id)
        self._seen = 0

    async def reached(self, state: EpisodeState) -> None:
        """Keep this state instead of the one before, with probability 1/n."""
        self._seen += 1
        if self._rng.random() * self._seen >= 1:
            return
        if not isinstance(state.session, Forkable):
            raise UsageError(
                "utterances in one state can be compared for agents only whose sessions have fork(), such as a "
                "ChatAgent; a program that plays the episodes cannot be forked"
            )
        await self.stop()
        host = await forked(state.host, self._paths.options)
        self.state = replace(state, host=host, session=state.session.fork(state.context))

    async def decided(self, state: EpisodeState, decision: Decision) -> None:
        """Do nothing: the paths choose their own actions."""

    async def stop(self) -> None:
        """Close the environment of the state."""
        kept, self.state = self.state, None
        if kept is not None:
            if isinstance(kept.session, Closable):
                await kept.session.close()
            await Forks(kept.host).close(origin=True)


class _Repeater:
    """Observes a path with a new utterance, and continues it several times after the environment's answer."""

    def __init__(self, paths: Paths, requests: Sequence[EpisodeRequest], turn: int, slot: Slot) -> None:
        self.found: list[Episode] = []
        self._paths, self._requests, self._turn, self._slot = paths, requests, turn, slot

    async def reached(self, state: EpisodeState) -> None:
        """In the state after the utterance, play the other paths from it."""
        if len(state.turns) == self._turn and self._requests:
            self.found = await self._slot.lent(self._paths.onward(state, self._requests))

    async def decided(self, state: EpisodeState, decision: Decision) -> None:
        """Do nothing: the path continues by itself."""

    async def stop(self) -> None:
        """Do nothing: no path is left running."""
