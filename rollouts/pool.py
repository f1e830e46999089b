"""Pool of environments: created on demand, reused between episodes, replaced after a failure."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from gymnasium.envs.registration import load_env_creator

from ..agents.agent import Agent
from ..envs.base import TurnEnv
from ..envs.registry import create, find, make
from ..envs.remote.address import is_foreign
from ..envs.toolenv import ToolEnv
from ..envs.tools import tools_of
from ..errors import UnknownEnvironmentError, UsageError
from ..logs import event
from .episode import Episode
from .episode_request import EpisodeRequest
from .hedging import ResetWatch
from .host_process import ProcessHost, portable
from .hosts import AwaitingHost, Build, Host, InlineHost, ThreadHost
from .options import Isolation, RunOptions
from .servers import Servers, servers_for
from .stats import RunStats

LOG = logging.getLogger(__name__)
EnvSource = str | type[TurnEnv] | Callable[..., TurnEnv]
"""A registered id, a class, or a callable that creates an environment."""


@dataclass(slots=True)
class EnvPool:
    """Creates, lends, takes back and closes environments of one kind.

    ``run_episodes`` creates one itself; pass your own to keep costly environments between runs::

        async with EnvPool.of("turnwise/Maze-v0") as pool:
            async for episode in run_episodes(pool, agent, tasks): ...

    Args:
        env_id: id under which episodes are recorded.
        build: function that creates one environment.
        isolation: place where environments run.
        env_kwargs: arguments of ``turnwise.make`` that ``build`` passes on; recorded with every episode.
    """

    env_id: str
    build: Build
    isolation: Isolation = "auto"
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    servers: Servers | None = None
    """Environment servers, for environments that run there."""
    resets: ResetWatch = field(default_factory=ResetWatch)
    """Durations of resets, where a run hedges them."""
    made: int = 0
    """Number of environments created so far."""
    _free: list[Host] = field(default_factory=list)
    _lent: set[Host] = field(default_factory=set)
    _abandoned: int = 0
    _takers: int = 0
    _full: bool = False
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, env: EnvSource, *, isolation: Isolation = "auto", env_kwargs: Mapping[str, Any] | None = None) -> Self:
        """Return a pool of the environments that ``env`` names.

        Raises:
            UnknownEnvironmentError: no such id.
            InfrastructureError: the server of a remote environment cannot be reached.
            UsageError: ``env`` is an environment, not a way to create one.
        """
        kwargs = dict(env_kwargs or {})
        if isinstance(env, str):
            entry = find(env)
            if (servers := servers_for(env, kwargs)) is not None:
                return cls(env, partial(make, env), "inline", servers=servers)
            if is_foreign(env) or (isolation == "auto" and _opens_slowly(env)):  # its process is elsewhere
                return cls(env, partial(make, env, **kwargs), "inline", kwargs)
            if isolation == "process":
                return cls(env, portable(entry, kwargs), isolation, kwargs)
            return cls(env, partial(make, env, **kwargs), _resolved(isolation, _class_of(entry.entry_point)), kwargs)
        if isinstance(env, TurnEnv) or not callable(env):
            raise UsageError(
                "env must be an id, a class or a factory, so that every episode gets its own instance; got "
                f"{type(env).__name__}"
            )
        name = getattr(env, "__qualname__", None) or type(env).__name__
        return cls(name, partial(create, env, **kwargs), _resolved(isolation, _class_of(env)), kwargs)

    @property
    def counters(self) -> Mapping[str, float]:
        """Numbers for a run's metrics; none where nothing can be lost and no resets are hedged."""
        return self.resets.metrics()

    @property
    def hosts(self) -> Sequence[Host]:
        """Its environments, idle or in use."""
        return (*self._free, *self._lent)

    @property
    def queues(self) -> bool:
        """Whether ``take`` may wait for as long as other episodes take: for a place on a server."""
        return self.servers is not None

    @property
    def waiting(self) -> int:
        """Number of calls of ``take`` that wait for a place on a server, since all are taken."""
        return self._takers if self._full else 0

    def keep_for_forks(self, sharers: int = 1) -> int:
        """Leave half of the places on environment servers to forks; return how many forks fit at a time.

        The first call closes the idle hosts: there may be one for each place, and an episode would start on each.

        Args:
            sharers: number of processes that share the servers, this one included.

        Raises:
            UsageError: no server has two places.
        """
        if self.servers is None:
            return sys.maxsize
        if not self.servers.branching:
            idle, self._free = self._free, []
            for host in idle:
                host.abandon()
        return self.servers.keep_for_forks(sharers)

    async def take(self) -> Host:
        """Return an idle environment, or a new one.

        Raises:
            InfrastructureError: creating it failed.
        """
        if self.servers is not None:
            return await self._take_remote(self.servers)
        host = self._idle() or await self._open()
        self._lent.add(host)
        return host

    def give(self, host: Host, *, reusable: bool) -> None:
        """Take an environment back; one that is busy or not ``reusable`` is abandoned."""
        self._lent.discard(host)
        if reusable and not (host.busy or host.ended):
            self._free.append(host)
        else:
            self._abandoned += 1
            host.abandon()
        if self.servers is not None:
            self.servers.returned()

    async def discard(self, host: Host) -> None:
        """Take an environment back and close it."""
        self._lent.discard(host)
        await host.close()
        if self.servers is not None:
            self.servers.returned()

    async def close(self) -> None:
        """Close every environment; one that is still in use is abandoned."""
        lent, self._lent = self._lent, set()
        free, self._free = self._free, []
        for host in lent:
            host.abandon()
        await asyncio.gather(*(host.close() for host in free))
        if self.servers is not None:
            await self.servers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _idle(self) -> Host | None:
        """Return an idle environment, if there is one; those whose process has ended meanwhile are abandoned."""
        while self._free:
            host = self._free.pop()
            if not host.ended:
                return host
            self._abandoned += 1
            host.abandon()
        return None

    async def _open(self) -> Host:
        if self.isolation == "auto":  # the class that a factory creates is unknown before its first call
            async with self._deciding:
                await self._decide()
        self._count()
        if self.isolation == "inline":
            return await (AwaitingHost if _opens_slowly(self.env_id) else InlineHost).open(self.build)
        if self.isolation == "thread":
            return await ThreadHost.open(self.build)
        return await ProcessHost.open(self.build)

    async def _take_remote(self, servers: Servers) -> Host:
        """Return an idle host, or one on a server that has room; wait until there is one."""
        self._takers += 1
        try:
            async with servers.line:
                while not servers.usable(self._free):
                    if (opened := await servers.open()) is not None:
                        self._count()
                        self._free.append(opened)
                    else:
                        self._full = True
                        await servers.change()
                host = self._free.pop()
                self._lent.add(host)
                return host
        finally:
            self._takers, self._full = self._takers - 1, False

    def _count(self) -> None:
        """Count another environment."""
        self.made += 1
        if self._abandoned:
            self._abandoned -= 1
            event(LOG, "restart", f"starting another {self.env_id} in place of one that failed", {"env": self.env_id})

    async def _decide(self) -> None:
        if self.isolation != "auto":
            return
        kinds: list[type[TurnEnv]] = []

        def look() -> TurnEnv:
            env = self.build()
            if hasattr(env, "astep"):
                kinds.append(type(env.unwrapped))  # type: ignore[arg-type]
            return env

        host = await ThreadHost.open(look)
        await host.close()
        self.isolation = "inline" if kinds and runs_inline(kinds[0]) else "thread"


class RemotePool(EnvPool, ABC):
    """A pool whose episodes are played elsewhere: whole episodes travel there and back, never single steps.

    ``take`` still lends environments of this process, e.g. to look at one before a run.
    """

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of episodes that are played at a time; it replaces ``concurrency``."""

    @abstractmethod
    async def play_request(
        self, request: EpisodeRequest, agent: Agent, options: RunOptions, stats: RunStats
    ) -> Episode:
        """Play one episode to its end; see ``playing.play_request``."""

    @abstractmethod
    async def play_tree(
        self, request: EpisodeRequest, strategy: Any, agent: Agent, options: RunOptions, stats: RunStats
    ) -> list[Episode]:
        """Play all episodes of one task, which may leave one another, in one place; see ``branching.play_tree``."""


def width(pool: EnvPool, options: RunOptions) -> int:
    """Return how many episodes a run plays at a time."""
    wanted = pool.width if isinstance(pool, RemotePool) else options.concurrency
    return wanted if pool.servers is None else min(wanted, pool.servers.places)


def runs_inline(kind: type[TurnEnv]) -> bool:
    """Whether an environment class may run in the event loop: it says so, or all its methods are coroutines.

    One that ``opens_slowly`` may not: an id of it gets an ``AwaitingHost``, and a class or a factory gets a thread.
    This includes ``judge`` if the class defines it: running a repository's tests may take longer than everything
    before.
    """
    if getattr(kind, "opens_slowly", False):
        return False
    if not kind.blocking:
        return True
    acts = [tool.function for tool in tools_of(kind)] if issubclass(kind, ToolEnv) else [kind.act]
    judges = [] if kind.judge is TurnEnv.judge else [kind.judge]
    return all(inspect.iscoroutinefunction(function) for function in (kind.start, *acts, *judges))


def _class_of(creator: Any) -> type[TurnEnv] | None:
    try:
        loaded = load_env_creator(creator) if isinstance(creator, str) else creator
    except ImportError:
        return None  # an optional extra is missing; creating the environment reports it
    return loaded if isinstance(loaded, type) and issubclass(loaded, TurnEnv) else None


def _resolved(isolation: Isolation, kind: type[TurnEnv] | None) -> Isolation:
    if isolation != "auto" or kind is None:
        return isolation
    return "inline" if runs_inline(kind) else "thread"


def _opens_slowly(id: str) -> bool:
    """Whether an id's environment waits for another process when it is created or forked, and otherwise only awaits."""
    if is_foreign(id):
        return True
    try:
        return getattr(_class_of(find(id).entry_point), "opens_slowly", False)
    except UnknownEnvironmentError:  # the name of a class or factory
        return False
