"""Restarts: groups of attempts that begin in the middle of a stored episode, at a state worth practicing.

A long task is rarely solved from its start, and its last part is rarely reached. A prefix of a stored episode leads
there (PrefixRL, arXiv 2601.18795; ExIt, arXiv 2509.04575). Its recorded actions are repeated on a fresh environment,
which must answer as recorded. Then all attempts of the group continue from forks of that state, so they are one
another's baseline. The record repeats the turns of the prefix without token ids: they are context, and only the
continuation is trained. Their rewards are the same for all attempts of the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import pvariance
from typing import Any, Literal

import pydantic

from ..agents.agent import Decision, EpisodeContext, Recalling
from ..config import Config
from ..errors import InfrastructureError, UsageError
from ..tasks.rng import Rng
from .branching import Forks, Paths, together
from .episode import Episode, Fork, Outcome, Turn
from .episode_run import EpisodeRun
from .episode_state import EpisodeState
from .hosts import Host, in_time
from .repeating import repeated
from .slot import Slot
from .step_values import state_returns
from .store import load_episodes
from .turns import one_line


@dataclass(frozen=True, slots=True)
class Prefix:
    """A state of a stored episode.

    Args:
        episode: the stored episode.
        turn: index of the turn that starts in the state; the prefix is the turns before it.
        weight: relative frequency of the state.
    """

    episode: Episode
    turn: int
    weight: float


class PrefixRestarts(Config):
    """Start groups of attempts from states of stored episodes."""

    strategy: Literal["restart"] = "restart"
    """Name of the strategy."""
    store: str
    """Folder of stored episodes of this environment and split. Restarted groups play their tasks."""
    share: float = pydantic.Field(default=0.5, gt=0, le=1)
    """Share of groups that restart; the others start with a reset."""
    only_success: bool = True
    """Restart only from solved episodes, whose prefixes lead somewhere."""
    choice: Literal["uniform", "varied"] = "uniform"
    """``uniform``: every state after a first turn is equally likely. ``varied``: in proportion to the variance of the
    returns that stored forks and rollouts (``branching`` of an earlier run) had from the state."""

    @cached_property
    def prefixes(self) -> tuple[Prefix, ...]:
        """All states to restart from.

        Raises:
            StoreError: there is no such store.
            UsageError: it has no state to restart from.
        """
        episodes = load_episodes(self.store)
        usable = [each for each in episodes if each.trainable and (each.success or not self.only_success)]
        found = [
            Prefix(each, turn, weight)
            for each in usable
            if all(turn.sent for turn in each.turns)
            for turn in range(1, len(each.turns))
            if (weight := 1.0 if self.choice == "uniform" else variation(each, turn, episodes)) > 0
        ]
        if not found:
            raise UsageError(
                f"{self.store} has no state to restart from. Of its {len(episodes)} episodes, {len(usable)} were "
                f"played to an end and passed only_success={str(self.only_success).lower()}. Of their states after a "
                f"first turn, choice={self.choice} takes none; varied needs stored forks or rollouts with different "
                "returns"
            )
        return tuple(found)

    def read(self) -> None:
        """Read the states before anything is played, so that a wrong store costs nothing.

        Raises:
            StoreError: there is no such store.
            UsageError: it has no state to restart from.
        """
        len(self.prefixes)

    async def play(self, paths: Paths, size: int) -> list[Episode]:
        """Play all episodes of a group, from a reset or from one state.

        Raises:
            UsageError: the store is of another environment or split, the environment does not answer as recorded, or
                the agent cannot continue recorded turns.
        """
        rng = Rng("restart", paths.options.seed, paths.root.group_id)
        if rng.random() >= self.share:
            whole = await together(paths.play(paths.request(member), paths.pool) for member in range(size))
            return [episode for episode, _ in whole]
        (prefix,) = rng.choices(self.prefixes, [each.weight for each in self.prefixes])
        _refuse_foreign(prefix.episode, paths, self.store)
        source = prefix.episode
        paths = replace(paths, root=replace(paths.root, task=source.task))
        fork = Fork(source.episode_id, (source.episode_id,) * prefix.turn)
        requests = [paths.request(member, fork) for member in range(size)]
        for attempt in range(paths.options.retries + 1):
            host: Host | None = None
            try:
                async with Slot(paths.slots) as slot:
                    host = await slot.without(paths.pool).take()
                    state = await _reached(prefix, paths, host)
                provider = Forks(host)
                try:
                    played = await together(paths.play(request, provider, origin=state) for request in requests)
                finally:
                    await provider.close(origin=False)
                return [episode for episode, _ in played]
            except InfrastructureError as error:
                paths.stats.failures[type(error).__name__] += 1
                paths.stats.retries += attempt < paths.options.retries
                reason = one_line(error)
            finally:
                if host is not None:
                    paths.pool.give(host, reusable=False)
        lost = (EpisodeRun(request, paths.options.retries + 1, paths.agent, paths.options) for request in requests)
        return [each.sealed(Outcome.INFRA_FAILED, error=reason) for each in lost]


def variation(episode: Episode, turn: int, episodes: Sequence[Episode]) -> float:
    """Return the variance of the stored returns from a state on, 0 if fewer than two are stored.

    Args:
        episode: the episode that passes through the state.
        turn: index of the turn that starts in the state.
        episodes: the store, with forks that left the episode at the state or later.
    """
    mine = _owners(episode, turn)
    found = list(state_returns(episode)[turn])
    for other in episodes:
        alike = other.trainable and other.group_id == episode.group_id and len(other.turns) > turn
        if alike and _owners(other, turn) == mine:
            found.append(sum(each.reward for each in other.turns[turn:]))
    return pvariance(found) if len(found) > 1 else 0.0


def _owners(episode: Episode, turn: int) -> tuple[str, ...]:
    """Return who acted in each of the first turns."""
    owners = episode.fork.owners[:turn] if episode.fork is not None else ()
    return (*owners, *(episode.episode_id,) * (turn - len(owners)))


async def _reached(prefix: Prefix, paths: Paths, host: Host) -> EpisodeState:
    """Repeat the actions of a prefix on an environment, and let a session recall them."""
    limit, turns, here = (
        paths.options.env_timeout,
        prefix.episode.turns[: prefix.turn],
        prefix.episode.turns[prefix.turn],
    )

    async def timed(call: Awaitable[Any], verb: str) -> Any:
        return await in_time(call, verb, limit)

    if not await repeated(turns, here.observation, paths.root.task, host, timed):
        raise UsageError(
            f"the environment does not answer the first {prefix.turn} actions of the stored episode "
            f"{prefix.episode.episode_id} as recorded, so that it cannot restart there; `turnwise replay` shows where "
            "they part. Store episodes of this version and these env_kwargs"
        )
    name = f"{paths.root.group_id}-prefix"
    rng = Rng("agent", paths.options.seed, name, 1)
    context = EpisodeContext(name, paths.pool.env_id, paths.root.task, host.tools, rng, host.oracle, host.random)
    session = paths.agent.start(context)
    if not isinstance(session, Recalling):
        raise UsageError(
            f"agent {type(paths.agent).__name__} cannot continue recorded turns: its sessions have no recall(); "
            "restarts need an agent such as a ChatAgent"
        )
    session.recall([(turn.observation, _decided(turn)) for turn in turns])
    return EpisodeState(tuple(map(_context_only, turns)), here.observation, here.obs_key, host, session, context)


def _decided(turn: Turn) -> Decision:
    return Decision(turn.action, turn.prompt_ids, turn.action_ids, turn.logprobs, turn.versions, turn.finish)


def _context_only(turn: Turn) -> Turn:
    """Return the turn without its tokens, which no algorithm can then train."""
    return replace(turn, prompt_ids=(), action_ids=(), logprobs=(), versions=())


def _refuse_foreign(episode: Episode, paths: Paths, store: str) -> None:
    wanted = paths.pool.env_id, str(paths.root.task.split)
    if (episode.env_id, str(episode.task.split)) != wanted:
        raise UsageError(
            f"{store} holds an episode of {episode.env_id}, split {episode.task.split}, and this run plays "
            f"{wanted[0]}, split {wanted[1]}: name a store of these"
        )
