"""VinePPO's values: estimate the value of every state of an episode by a few fresh rollouts.

Kazemnejad et al., "VinePPO: Refining Credit Assignment in RL Training of LLMs" (arXiv 2410.01679, section 4):
``V̂(s_t) = (1/K) Σ_k G(τ_k)`` over K independent rollouts from s_t by the policy of the episode itself: an unbiased
estimate of its value, by the returns themselves. K = 9 in the paper. The rollouts are accounted for and never trained
on, and the episode's own action plays no part in the values: an advantage ``r + γ V̂(s′) − V̂(s)`` is unbiased too.
What an environment draws by itself follows from its task, so it forks with it: the rollouts from a state differ in what
the policy does, and values are those of this very task.

The episode pauses in a state while its rollouts are played, each on a separate fork. After an infrastructure failure, a
rollout is played again from the same state; if it fails each time it is lost, and the mean is over the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pydantic

from ..agents.agent import Decision
from ..config import Config
from .branching import Paths, together
from .costs import lookahead
from .episode import Episode, Lookahead
from .episode_request import EpisodeRequest
from .episode_state import EpisodeState
from .slot import Slot


class StateValues(Config):
    """Estimate the value of every state by rollouts (VinePPO, arXiv 2410.01679)."""

    strategy: Literal["vine"] = "vine"
    """Name of the strategy."""
    rollouts: int = pydantic.Field(default=9, ge=1)
    """K: number of fresh rollouts from each state."""

    async def play(self, paths: Paths, size: int) -> list[Episode]:
        """Play all episodes of a task, each with rollouts from its states."""
        return await together(self._path(paths, paths.request(member)) for member in range(size))

    async def _path(self, paths: Paths, request: EpisodeRequest) -> Episode:
        episode, observer = await paths.play(
            request, paths.pool, watch=lambda slot: _Looker(paths, self.rollouts, request, slot)
        )
        return replace(episode, lookaheads=tuple(observer.found)) if observer is not None else episode


class _Looker:
    """Observes one attempt at an episode, and plays rollouts from every state."""

    def __init__(self, paths: Paths, rollouts: int, request: EpisodeRequest, slot: Slot) -> None:
        self.found: list[Lookahead] = []
        self._paths, self._rollouts, self._request, self._slot = paths, rollouts, request, slot

    async def reached(self, state: EpisodeState) -> None:
        """Play rollouts from this state before the agent acts."""
        played = await self._slot.lent(self._paths.rollouts(state, self._request, self._rollouts))
        self.found += [lookahead(episode, first=number == 0) for number, episode in enumerate(played)]

    async def decided(self, state: EpisodeState, decision: Decision) -> None:
        """Do nothing: the episode's own action needs no rollouts."""

    async def stop(self) -> None:
        """Do nothing: no rollout is left running."""
