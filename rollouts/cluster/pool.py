"""``ClusterPool``: a pool whose episodes are played by workers on a Ray cluster, each counted exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import cloudpickle
import ray

from ...agents.agent import Agent
from ...errors import ContractError, UsageError
from ...inference.policy_service import PolicyService, error_named
from ...logs import event
from ..episode import Episode, Outcome
from ..episode_request import EpisodeRequest
from ..episode_run import EpisodeRun
from ..hosts import Build
from ..options import RolloutsConfig, RunOptions
from ..packed import unpack
from ..pool import EnvPool, RemotePool
from ..stats import RunStats
from .agents import packed_agent
from .connection import ClusterConnection, Needs
from .durations import Durations
from .keeper import LiveWorker
from .lease import Before, Lease, Played, WorkerSetup
from .lease_channel import WorkerLostError
from .nodes import nodes_now, slots_of
from .workers import MOST_LOSSES, Workers

LOG = logging.getLogger(__name__)
SHARED_LOSSES = 2
"""Number of workers that may die with an episode before it is played alone, so that it takes no others along."""
ELSEWHERE = 1
"""Number of times that an episode that failed before any action of its agent is played again on another node."""
SERVERS = ("PolicyServerError", "ServerSettingsError")
"""Failures of the policy's servers, which are the same on every node."""


class ClusterPool(RemotePool):
    """Environments on the workers of a Ray cluster.

    Each episode that a run draws is one coroutine here, which gives a lease to one worker at a time and waits for its
    answer. If the worker dies, the coroutine leases the episode to another one, under the next attempt; an answer of an
    earlier attempt then has no one who waits for it. So no episode is lost, and none is counted twice. A slow one is
    waited for.

    Args:
        local: pool of this process for the same environments.
        build: function that creates an environment in any process.
        config: settings of the rollouts.

    Raises:
        UsageError: there is no such cluster, or it has no node for a worker.
    """

    def __init__(self, local: EnvPool, build: Build, config: RolloutsConfig) -> None:
        super().__init__(local.env_id, local.build, local.isolation, local.env_kwargs, servers=local.servers)
        self._portable, self._config = build, config
        self._service = PolicyService()
        self._opening = asyncio.Lock()
        self._workers: Workers | None = None
        self._agents: dict[int, tuple[Agent, str, Any]] = {}
        self._options: tuple[RunOptions, RunOptions, bytes] | None = None
        self._underway: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        """Episodes so far: ``drawn``, ``ended``, ``cancelled``; leases that were played again since their worker died
        (``lost``), or since its node or the worker failed (``moved``); resets that got a rival (``hedged``)."""
        self._durations = Durations()
        self._connection = ClusterConnection(config.address, Needs.of_workers(config), object_store=config.object_store)

    @property
    def width(self) -> int:
        return self._wanted * self._config.episodes_per_worker

    @property
    def _wanted(self) -> int:
        """Number of workers, or before they are started, the number that there will be."""
        if self._config.workers_per_node is None:
            return self._config.workers
        started = self._workers.target if self._workers is not None else 0
        return max(1, started or len(slots_of(self._config, nodes_now())))

    @property
    def open(self) -> int:
        """Number of episodes that were drawn and have not ended."""
        return sum(self._underway.values())

    @property
    def counters(self) -> Mapping[str, float]:
        found: dict[str, float] = {"workers": len(self.workers), "lost": self.counts["lost"]}
        found |= {"moved": self.counts["moved"], "hedged": self.counts["hedged"], **self._durations.metrics()}
        if (workers := self._workers) is not None:
            found |= {"deaths": workers.deaths, "retired": workers.retired, "resting": workers.nodes.resting}
        return {f"ray/{name}": float(number) for name, number in found.items()}

    @property
    def workers(self) -> tuple[LiveWorker, ...]:
        """Workers that are ready."""
        return tuple(self._workers.live) if self._workers is not None else ()

    async def play_request(
        self, request: EpisodeRequest, agent: Agent, options: RunOptions, stats: RunStats
    ) -> Episode:
        episodes = await self._leased(Lease(request, 0, "", self._plain(options)[0]), agent, stats)
        return episodes[0]

    async def play_tree(
        self, request: EpisodeRequest, strategy: Any, agent: Agent, options: RunOptions, stats: RunStats
    ) -> list[Episode]:
        try:
            data = bytes(cloudpickle.dumps(strategy))
        except Exception as error:
            raise UsageError(f"strategy {type(strategy).__name__} cannot be sent to workers ({error})") from None
        return await self._leased(Lease(request, 0, "", self._plain(options)[0], data), agent, stats)

    async def close(self) -> None:
        """Close the workers and leave the cluster."""
        workers, self._workers = self._workers, None
        if workers is not None:
            await workers.close()
        await self._service.close()
        await super().close()
        await asyncio.to_thread(self._connection.close)

    def _plain(self, options: RunOptions) -> tuple[RunOptions, bytes]:
        """Return the options of the run alone, also pickled: those of an evaluation hold what no worker needs."""
        if self._options is None or not any(each is options for each in self._options[:2]):
            plain = RunOptions(**{name: getattr(options, name) for name in RunOptions.model_fields})
            self._options = options, plain, cloudpickle.dumps(plain)
        return self._options[1:]

    async def _leased(self, lease: Lease, agent: Agent, stats: RunStats) -> list[Episode]:
        """Have a lease played, by one worker after another until one answers."""
        name = f"{lease.options.seed}/{lease.request.group_id}/{lease.request.episode_id}"
        if name in self._underway:
            raise ContractError(f"episode {lease.request.episode_id or lease.request.group_id} is being played already")
        self._underway[name] = lease.size
        self.counts["drawn"] += lease.size
        self._durations.start(name)
        finished, episodes = False, list[Episode]()
        try:
            episodes = await self._played(name, lease, agent, stats)
            self.counts["ended"] += len(episodes)
            finished = True
            return episodes
        except asyncio.CancelledError:
            self.counts["cancelled"] += lease.size
            stats.outcomes[Outcome.CANCELLED] += lease.size
            raise
        finally:
            del self._underway[name]
            self._durations.end(name, finished=finished)
            for straggler, age, usual in self._durations.stragglers():
                text = f"episode {straggler} has been under way for {age:.0f} s, and 99 of 100 end within {usual:.0f} s"
                event(LOG, "straggler", text, {"episode": straggler, "seconds": age}, level=logging.WARNING)
            if self._workers is not None:
                self._workers.finished(name, suspect=not finished or any(map(_killed_workers, episodes)))

    async def _played(self, name: str, lease: Lease, agent: Agent, stats: RunStats) -> list[Episode]:
        workers = await self._started()
        digest, reference = self._agent(agent)
        before, lost, avoid, patient = Before(), 0, None, False
        while True:
            worker = await workers.acquire(avoid, alone=lost >= SHARED_LOSSES, patient=patient)
            worker.playing[name] = lease.size
            attempt = replace(lease, attempt=before.leases + 1, agent=digest)
            worked, answered, died = None, False, False
            try:
                answer = await self._answer(workers, worker, attempt, reference)
                episodes = self._counted(answer, attempt, stats)
                worked, answered = place_worked(episodes), True
            except WorkerLostError as error:
                lost, died = lost + 1, True
                self.counts["lost"] += 1
                stats.failures["WorkerLostError"] += 1
                stats.retries += 1
                if lost > MOST_LOSSES:
                    return self._given_up(lease, agent, before, str(error).partition("\n")[0])
                # Another node shows whether this one or the episode is at fault; there may be none.
                before, avoid, patient = before.and_lost(), worker, False
                continue
            finally:
                if not died:
                    worker.playing.pop(name, None)
                workers.release(worker, worked=worked, answered=answered)
            if worked is False and before.moved < ELSEWHERE and self._place_failed(worker, episodes):
                self.counts["moved"] += 1
                stats.retries += 1
                before, avoid, patient = before.and_failed(episodes), worker, True
                continue
            return [before.added_to(each) for each in episodes]

    async def _answer(self, workers: Workers, worker: LiveWorker, lease: Lease, reference: Any) -> Played:
        """Have a worker play a lease, after it has received the agent if it may not have it."""
        data = lease.packed(self._plain(lease.options)[1])
        known = worker.agent == lease.agent
        while True:
            if not known and (error := await workers.call(worker, worker.actor.learn.remote(lease.agent, reference))):
                raise error_named(*error)
            assert worker.channel is not None, "a worker that is ready has one"
            played = Played.unpacked(await worker.channel.play(data))
            worker.agent, known = lease.agent, False
            if not played.unknown:
                return played

    def _place_failed(self, worker: LiveWorker, episodes: list[Episode]) -> bool:
        """Whether another place may play episodes that failed before any action: the failure may be one of this place.

        Once a place rests or retires since everything fails there, it is at fault, also for failures of servers.
        """
        workers = self._workers
        if workers is None or not workers.elsewhere(worker):
            return False
        at_fault = workers.nodes.rests(worker.node) or bool(worker.retiring)
        served = any(str(each.error).startswith(SERVERS) for each in episodes)
        return at_fault or not served

    def _counted(self, played: Played, lease: Lease, stats: RunStats) -> list[Episode]:
        if played.error is not None:
            raise error_named(*played.error)
        if played.key != lease.key:
            raise ContractError(f"a worker answered to lease {played.key} instead of {lease.key}")
        stats.retries += played.retries
        stats.failures.update(played.failures)
        self.counts["hedged"] += played.hedged
        return unpack(played.episodes)

    def _given_up(self, lease: Lease, agent: Agent, before: Before, why: str) -> list[Episode]:
        """Return the record of episodes whose workers all died, perhaps of an agent's action."""
        members = [lease.request]
        if lease.strategy is not None:
            group = lease.request.group_id
            members = [
                replace(lease.request, member=each, episode_id=f"{group}-{each}")
                for each in range(lease.options.group_size)
            ]
        lost = MOST_LOSSES + 1
        error = f"WorkerLostError: {lost} workers died while they played this episode; the last: {why}"
        sealed = [
            EpisodeRun(each, 1, agent, lease.options).sealed(Outcome.INFRA_FAILED, error=error) for each in members
        ]
        return [replace(before.added_to(episode), after_action=before.after_action + lost) for episode in sealed]

    async def _started(self) -> Workers:
        async with self._opening:
            if self._workers is None:
                await self._service.open(self._connection.host)
                setup = WorkerSetup(
                    self.env_id,
                    self._portable,
                    self.isolation,
                    dict(self.env_kwargs),
                    self._service.address,
                    self._service.key,
                    self._config.episodes_per_worker,
                    self._wanted,
                )
                try:
                    data = cloudpickle.dumps(setup)
                except Exception as error:
                    raise UsageError(
                        f"{self.env_id} cannot be sent to workers ({type(error).__name__}: {error}); register it in a "
                        "module that they can import"
                    ) from None
                self._workers = Workers(self._config, data, self._service.key)
            return self._workers

    def _agent(self, agent: Agent) -> tuple[str, Any]:
        """Return the digest of an agent and the reference to its bytes, which are sent to each worker once."""
        if id(agent) not in self._agents:
            digest, data = packed_agent(agent, self._service)
            same = next((ref for _, known, ref in self._agents.values() if known == digest), None)
            while len(self._agents) >= 4:
                self._agents.pop(next(iter(self._agents)))
            self._agents[id(agent)] = agent, digest, same or ray.put(data)
        _, digest, reference = self._agents[id(agent)]
        return digest, reference


def _killed_workers(episode: Episode) -> bool:
    """Whether an episode was given up since its workers died."""
    return str(episode.error).startswith(WorkerLostError.__name__)


def place_worked(episodes: Sequence[Episode]) -> bool | None:
    """Return whether the place of a lease works, as far as its episodes say; ``None`` if they say nothing.

    A failure after an action of the agent may be the action's own. Counted against the place, it would let agents close
    healthy places. Counted for the place, it would hide a fault that all places share, and others would rest for it.
    """
    if any(each.outcome is not Outcome.INFRA_FAILED for each in episodes):
        return True
    return None if any(each.after_action for each in episodes) else False
