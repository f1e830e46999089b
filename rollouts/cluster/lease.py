"""Messages between the driver and its workers."""

from __future__ import annotations

import pickle
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from operator import attrgetter
from typing import Any

from ..episode import Episode
from ..episode_request import EpisodeRequest
from ..hosts import Build
from ..options import Isolation, RunOptions


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """Everything that a worker needs before its first episode.

    Args:
        env_id: id of the environment.
        build: function that creates one environment.
        isolation: place of environments in the worker.
        env_kwargs: arguments of the environment.
        service: address of the driver's policy service.
        key: key of that service.
        seats: number of episodes that the worker plays at a time.
        workers: number of workers when the run starts, which share the places of environment servers.
    """

    env_id: str
    build: Build
    isolation: Isolation
    env_kwargs: Mapping[str, Any]
    service: tuple[str, int]
    key: str
    seats: int
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to play one episode, or all episodes of one task. No other worker has it at the same time.

    Args:
        request: the episode; with a strategy, the values that the episodes of a task share.
        attempt: number of workers that have had this lease, this one included.
        agent: digest of the agent.
        options: options of the run.
        strategy: pickled strategy that decides where the episodes of the task branch, if they do. Workers keep the
            object by its bytes: one that has read a store need not read it for every task.
    """

    request: EpisodeRequest
    attempt: int
    agent: str
    options: RunOptions
    strategy: bytes | None = None

    @property
    def key(self) -> str:
        """Name of the lease: two leases with one name would be the same episode counted twice."""
        return f"{self.request.group_id}/{self.request.episode_id}/{self.attempt}"

    def packed(self, options: bytes) -> bytes:
        """Return it as bytes for a worker.

        Args:
            options: pickled options, which all leases of a run share.
        """
        return pickle.dumps((self.request, self.attempt, self.agent, options, self.strategy))

    @classmethod
    def unpacked(cls, data: bytes, opened: Callable[[bytes], RunOptions]) -> Lease:
        """Return the lease of ``packed``.

        Args:
            data: its bytes.
            opened: function that unpickles the options.
        """
        request, attempt, agent, options, strategy = pickle.loads(data)
        return cls(request, attempt, agent, opened(options), strategy)

    @property
    def size(self) -> int:
        """Number of episodes that it brings."""
        return 1 if self.strategy is None else self.options.group_size


@dataclass(frozen=True, slots=True)
class Before:
    """Attempts at a lease before the current one, which the record of its episodes includes.

    Args:
        leases: number of leases.
        moved: number of them that failed, rather than having lost their worker.
        attempts: attempts within these leases.
        redrawn: attempts that were dropped after the agent had acted.
        after_action: failures after an action of the agent.
    """

    leases: int = 0
    moved: int = 0
    attempts: int = 0
    redrawn: int = 0
    after_action: int = 0

    def and_lost(self) -> Before:
        """Add a lease whose worker died, perhaps after the agent had acted."""
        return replace(self, leases=self.leases + 1, attempts=self.attempts + 1, redrawn=self.redrawn + 1)

    def and_failed(self, episodes: Sequence[Episode]) -> Before:
        """Add a lease whose episodes all failed."""
        return Before(
            self.leases + 1,
            self.moved + 1,
            self.attempts + max(each.attempts for each in episodes),
            self.redrawn + max(each.redrawn + bool(each.turns) for each in episodes),
            self.after_action + max(each.after_action for each in episodes),
        )

    def added_to(self, episode: Episode) -> Episode:
        """Return an episode of the current lease with these attempts."""
        if not self.leases:
            return episode
        return replace(
            episode,
            attempts=episode.attempts + self.attempts,
            redrawn=episode.redrawn + self.redrawn,
            after_action=episode.after_action + self.after_action,
        )


@dataclass(frozen=True, slots=True)
class Played:
    """The end of a lease.

    Args:
        key: name of the lease.
        episodes: episodes, packed.
        retries: attempts beyond the first.
        failures: failed attempts by kind of error.
        error: class and message of an error that stops the run, if there was one.
        unknown: whether nothing was played, since the worker does not have the agent (any more).
        hedged: number of the worker's resets that got a rival since its last answer.
    """

    key: str
    episodes: bytes = b""
    retries: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    error: tuple[str, str] | None = None
    unknown: bool = False
    hedged: int = 0

    def packed(self) -> bytes:
        """Return it as bytes for the driver."""
        return pickle.dumps(_VALUES(self))

    @classmethod
    def unpacked(cls, data: bytes) -> Played:
        """Return the end of ``packed``."""
        return cls(*pickle.loads(data))


_VALUES = attrgetter(*(each.name for each in fields(Played)))


def versions() -> dict[str, str]:
    """Return the versions that driver and workers must share."""
    return {"Python": platform.python_version(), "Turnwise": version("turnwise")}
