"""ARPO's adaptive rollouts: where the policy hesitates after the environment has answered, an episode branches.

Dong et al., "Agentic Reinforced Policy Optimization" (arXiv 2507.19849, section 3.1). Of N episodes per task some are
sampled whole; the rest are branches. After each answer of the environment, a path branches if ``U − w·ΔH ≤ threshold``
with U uniform on [0, 1]: in probability ``threshold + w·ΔH``, where ``ΔH = H_t − H_0`` compares the entropy of the
action with that of the first one. What is left of the budget when all paths are over becomes whole episodes.

**Which entropy.** The released code sums ``−p log p`` over ten returned log-probabilities and divides by ``log V``: ten
terms are no distribution, and the more the policy hesitates, the more of the entropy they miss. Here it is
``Ĥ = −Σ_{i ≤ n} log p(a_i) / (n log V)`` over the first n tokens that were *sampled* (a shorter action is followed by
nothing, which has entropy 0). By the chain rule its mean is exactly the entropy of those n tokens over its maximum, so
it lies in [0, 1]; it needs nothing that servers do not return anyway. It is a sample: a path also branches a little
more often where its own action was unlikely. That biases no action, since a branch draws its own and the path keeps
what it drew: it only decides how many actions are drawn in a state.

**Whose budget.** The paper's is first come, first served. Here each whole episode has its share of it, which it divides
with its branches: then who is fast decides nothing, and the same seed makes the same tree.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pydantic

from ..agents.agent import Agent, Decision, Forkable, Session
from ..agents.chat import ChatAgent
from ..config import Config
from ..errors import InfrastructureError, UsageError
from ..tasks.rng import Rng
from .branching import Forks, Paths, forked, together
from .episode import Episode, Fork
from .episode_request import EpisodeRequest
from .episode_state import EpisodeState, HostProvider

Grown = tuple[list[Episode], list[int]]
"""A path with its branches, and the unused member numbers."""


class EntropyBranching(Config):
    """Branch where the entropy of actions has risen (ARPO, arXiv 2507.19849)."""

    strategy: Literal["entropy"] = "entropy"
    """Name of the strategy."""
    initial: int | None = pydantic.Field(default=None, ge=1)
    """Number of a task's episodes that start with a reset, while the others may be branches (default: half; 8 of 16 in
    the paper)."""
    weight: float = pydantic.Field(default=0.2, ge=0)
    """w: increase of the branching probability when entropy rises by its maximum."""
    threshold: float = pydantic.Field(default=0.5, ge=0, le=1)
    """Probability of a branch when the entropy equals that of the first turn."""
    beam: int = pydantic.Field(default=2, ge=2)
    """Maximum number of paths that leave one state, including the original."""
    tokens: int = pydantic.Field(default=20, ge=1)
    """n: number of tokens of an action over which entropy is measured; ``agent.max_tokens`` if that is less."""
    vocabulary: int | None = pydantic.Field(default=None, ge=2)
    """V (default: size of the agent tokenizer's vocabulary)."""

    def entropy(self, logprobs: Sequence[float], vocabulary: int) -> float:
        """Estimate Ĥ of an action; unbiased, and in [0, 1] on average."""
        return -math.fsum(logprobs[: self.tokens]) / (self.tokens * math.log(vocabulary))

    def branches(self, rise: float, uniform: float) -> bool:
        """Whether a path branches, given ΔH and U."""
        return uniform - self.weight * rise <= self.threshold

    def initials(self, size: int) -> int:
        """Return how many episodes of a task start with a reset.

        Raises:
            UsageError: ``initial`` exceeds the number of episodes.
        """
        wanted = (size + 1) // 2 if self.initial is None else self.initial
        if wanted > size:
            raise UsageError(
                f"branching.initial = {wanted} exceeds group_size = {size}, the number of episodes per task; lower it"
            )
        return wanted

    async def play(self, paths: Paths, size: int) -> list[Episode]:
        """Play all episodes of a task.

        Raises:
            UsageError: the agent samples no tokens, or the size of its vocabulary is unknown.
        """
        initial, vocabulary = self.initials(size), self.vocabulary or vocabulary_of(paths.agent)
        hands = dealt(range(initial, size), initial)
        lines = await together(self._line(paths, vocabulary, member, hand) for member, hand in enumerate(hands))
        return [episode for line in lines for episode in line]

    async def _line(self, paths: Paths, vocabulary: int, member: int, hand: Sequence[int]) -> list[Episode]:
        """Play a whole episode with its branches, then as many more whole episodes as its budget allows."""
        grown, left = await self.grow(paths, vocabulary, paths.request(member), paths.pool, None, hand)
        more = await together(paths.play(paths.request(each), paths.pool) for each in left)
        return [*grown, *(episode for episode, _ in more)]

    async def grow(
        self,
        paths: Paths,
        vocabulary: int,
        request: EpisodeRequest,
        provider: HostProvider,
        origin: EpisodeState | None,
        hand: Sequence[int],
    ) -> Grown:
        """Play a path with all its branches.

        Args:
            paths: runs the attempts.
            vocabulary: V.
            request: request of the path.
            provider: source of its environment.
            origin: state where it starts; ``None`` for a reset.
            hand: member numbers for its branches.
        """
        episode, observer = await paths.play(
            request, provider, origin=origin, watch=lambda slot: _Brancher(self, paths, vocabulary, request, hand)
        )
        if observer is None:
            return [episode], list(hand)
        try:
            return await observer.grown(episode)
        finally:
            await observer.stop()


class _Brancher:
    """Observes one attempt at a path, and starts branches."""

    def __init__(
        self, settings: EntropyBranching, paths: Paths, vocabulary: int, request: EpisodeRequest, hand: Sequence[int]
    ) -> None:
        self._settings, self._paths, self._vocabulary, self._request = settings, paths, vocabulary, request
        self._hand = list(hand)
        self._first = request.fork.turn if request.fork is not None else 0
        self._session: Session | None = None
        self._sprouts: list[asyncio.Task[list[Grown]]] = []
        self._waiting: set[Forks] = set()
        """Forks whose branches have not started: a task that is canceled before its first step closes nothing."""

    async def reached(self, state: EpisodeState) -> None:
        """Keep the conversation in this state, in case branches continue from it."""
        self._session = None
        if self._hand and len(state.turns) > self._first:  # in the first state of a branch, its parent decides
            if not isinstance(state.session, Forkable):
                raise UsageError(
                    f"agent {type(self._paths.agent).__name__} cannot branch: its sessions have no fork(); use a "
                    "ChatAgent, or plain sampling"
                )
            self._session = state.session.fork(state.context)

    async def decided(self, state: EpisodeState, decision: Decision) -> None:
        """Decide whether to branch; the environment has not received the action yet."""
        session, settings = self._session, self._settings
        if session is None:
            return
        now, first = (settings.entropy(each, self._vocabulary) for each in (decision.logprobs, state.turns[0].logprobs))
        uniform = Rng("branching", *state.context.rng.key, len(state.turns)).random()
        if not settings.branches(now - first, uniform):
            return
        try:
            host = await forked(state.host, self._paths.options)
        except InfrastructureError as error:  # no branch here; the path shows whether the environment is broken
            self._paths.stats.failures[type(error).__name__] += 1
            return
        taken, rest = self._hand[: settings.beam - 1], self._hand[settings.beam - 1 :]
        self._hand, *hands = dealt(rest, 1 + len(taken))
        origin = replace(state, host=host, session=session)
        provider = Forks(host)
        self._waiting.add(provider)
        sprout = self._sprout(origin, provider, list(zip(taken, hands, strict=True)))
        self._sprouts.append(asyncio.create_task(sprout, name="turnwise-branch"))

    async def grown(self, episode: Episode) -> Grown:
        """Return the finished path and its branches."""
        episodes, left = [episode], list(self._hand)
        for grown in await asyncio.gather(*self._sprouts):
            for branch, unused in grown:
                episodes += branch
                left += unused
        return episodes, left

    async def stop(self) -> None:
        """Cancel all branches of the path."""
        for sprout in self._sprouts:
            sprout.cancel()
        try:
            await asyncio.gather(*self._sprouts, return_exceptions=True)
        finally:  # also if the run is canceled while a failed path stops
            await asyncio.gather(*(provider.close(origin=True) for provider in self._waiting))

    async def _sprout(
        self, origin: EpisodeState, provider: Forks, members: Sequence[tuple[int, list[int]]]
    ) -> list[Grown]:
        """Start branches from one state, each with the member numbers for its own branches."""
        self._waiting.discard(provider)
        owners = self._request.fork.owners if self._request.fork is not None else ()
        own = (self._request.episode_id,) * (len(origin.turns) - len(owners))
        fork = Fork(self._request.episode_id, (*owners, *own))
        grow = self._settings.grow
        try:
            return await together(
                grow(self._paths, self._vocabulary, self._paths.request(member, fork), provider, origin, hand)
                for member, hand in members
            )
        finally:
            await provider.close(origin=True)


def dealt(cards: Sequence[int], players: int) -> list[list[int]]:
    """Deal the member numbers out, one to each in turn."""
    return [list(cards[player::players]) for player in range(players)]


def vocabulary_of(agent: Agent) -> int:
    """Return the size of the vocabulary from which an agent samples.

    Raises:
        UsageError: the size is unknown.
    """
    if not isinstance(agent, ChatAgent):
        raise UsageError(
            f"the size of the vocabulary is unknown for agent {type(agent).__name__}: set branching.vocabulary"
        )
    return len(agent.template.tokenizer)
