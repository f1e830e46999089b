"""The workers of a run: chosen for each episode, replaced when they die, and as many as the cluster has room for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from ...errors import InfrastructureError, TurnwiseError, UsageError
from ...logs import event
from ..options import RolloutsConfig
from .circuit import Circuit
from .deaths import Deaths
from .keeper import Keeper, LiveWorker, awaited
from .lease_channel import WorkerLostError
from .nodes import Nodes, Slot, nodes_now, slots_of
from .waiters import Waiters

LOG = logging.getLogger(__name__)
MOST_LOSSES = 8
"""Number of workers that may die with an episode before it is ``infra_failed``, since it may be what kills them."""
FRUITLESS = 4
"""Number of deaths per worker without a single episode between them, after which the run stops; never fewer than one
episode may cause."""
PATIENCE = 30.0
"""Maximum seconds for which an episode that failed on one node waits for the first worker on another."""
LOOK = 2.0
"""Seconds between two looks at the nodes of the cluster."""


class Workers:
    """Keeps the workers of a run alive, and lends their seats.

    Args:
        config: settings of the rollouts.
        setup: pickled ``WorkerSetup``.
        key: key of the run, by which workers know their driver.
    """

    def __init__(self, config: RolloutsConfig, setup: bytes, key: str) -> None:
        self._config, self._setup, self._key = config, setup, key
        self.live: list[LiveWorker] = []
        self.deaths = self.retired = 0
        self.nodes, self._places, self._unexplained = Circuit(), Circuit(), Deaths[LiveWorker]()
        self._fruitless = self._choosy = 0
        self._fatal: TurnwiseError | None = None
        self._changed = Waiters()
        self._keepers: dict[Slot, tuple[Keeper, asyncio.Task[None]]] = {}
        self._resting: set[asyncio.TimerHandle] = set()
        self._without_since = time.monotonic()
        self._following = asyncio.create_task(self._follow(), name="turnwise-ray-nodes")
        self._following.add_done_callback(partial(self._stop_on_defect, "the look at the nodes of the cluster"))

    @property
    def target(self) -> int:
        """Number of workers that should live."""
        return len(self._keepers)

    async def acquire(
        self, avoid: LiveWorker | None = None, *, alone: bool = False, patient: bool = True
    ) -> LiveWorker:
        """Return the worker with the fewest leases that has room for another; wait for one if there is none.

        Args:
            avoid: worker on which the episode failed; another node is preferred, then another worker.
            alone: wait for a worker without leases, which gets no other one until this one is returned.
            patient: whether to wait for a worker that starts on another node than ``avoid``.

        Raises:
            UsageError: the workers cannot be used, or none started in time.
            InfrastructureError: all of them keep dying.
        """
        started = time.monotonic()
        self._choosy += avoid is not None or alone
        reserved: LiveWorker | None = None
        try:
            while True:
                if self._fatal is not None:
                    raise type(self._fatal)(str(self._fatal))
                usable = self._usable(avoid)
                left = started + PATIENCE - time.monotonic()
                if avoid is not None and patient and left > 0 and self._starting(avoid, usable):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await self._changed.wait()
                    continue
                if alone:
                    reserved = self._reserve(usable, reserved)
                free = [worker for worker in usable if self._has_room(worker, reserved, alone=alone)]
                if free:
                    chosen = min(free, key=lambda worker: worker.leases)
                    chosen.leases += 1
                    chosen.alone = alone
                    return chosen
                await self._changed.wait()
        finally:
            self._choosy -= avoid is not None or alone
            self._unreserve(reserved)

    def release(self, worker: LiveWorker, *, worked: bool | None, answered: bool = True) -> None:
        """Return a lease.

        Args:
            worker: the worker that had it.
            worked: whether it brought an episode, and not only failures of the infrastructure; ``None`` if its end says
                nothing about the place.
            answered: whether the worker answered.
        """
        worker.leases -= 1
        every = self._choosy > 0 or worker.alone
        worker.alone = False
        if answered:
            self._fruitless = 0
        if worked is not None:
            self._judge(worker, worked=worked)
        if worker.retiring and not worker.leases:
            worker.emptied.set()
        self._changed.wake(every=every)

    def finished(self, episode: str, *, suspect: bool) -> None:
        """Note the end of an episode, which may tell why workers died; see ``Deaths.end``."""
        for worker in self._unexplained.end(episode, suspect=suspect):
            self._judge_node(worker, worked=False)

    def elsewhere(self, worker: LiveWorker) -> bool:
        """Whether an episode that failed on a worker can be played on another."""
        usable = self._usable(worker)
        return any(other is not worker for other in usable) or self._starting(worker, usable)

    async def call(self, worker: LiveWorker, reference: Any) -> Any:
        """Return the answer of a call of a worker's actor.

        Raises:
            WorkerLostError: the worker died, or its answer was lost with its node.
        """
        answer = asyncio.ensure_future(awaited(reference))
        try:
            await asyncio.wait([answer, worker.lost], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise WorkerLostError(worker.lost.result())
            return answer.result()
        except RayTaskError:  # a bug in Turnwise, not a fault of the cluster
            raise
        except RayError as error:
            worker.mark_lost(str(error))
            raise WorkerLostError(str(error)) from None
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.gather(answer, return_exceptions=True)

    def retire(self, worker: LiveWorker, why: str) -> None:
        """Lend no more seats of a worker; when its episodes have ended, another takes its place."""
        if worker.retiring:
            return
        worker.retiring = why
        self.retired += 1
        text = f"a worker ends after its {worker.leases} episodes: {why}"
        event(LOG, "worker retires", text, {"pid": worker.pid, "episodes": worker.leases}, level=logging.WARNING)
        if not worker.leases:
            worker.emptied.set()

    async def close(self) -> None:
        """Close all workers; none is left."""
        self._following.cancel()
        for timer in self._resting:
            timer.cancel()
        tasks = [task for _, task in self._keepers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(self._following, *tasks, return_exceptions=True)
        self.live.clear()

    # -- called by keepers ----------------------------------------------------------------------------------------

    def began(self, worker: LiveWorker) -> None:
        """Add a worker that is ready."""
        worker.on_lost = self._note_death
        self.live.append(worker)
        self._wake()

    def ended(self, worker: LiveWorker) -> None:
        """Remove a worker."""
        self.live = [other for other in self.live if other is not worker]
        self._places.forget(str(worker.pid))
        if not self.live:
            self._without_since = time.monotonic()

    def died(self) -> None:
        """Count a worker that died or could not start."""
        self.deaths += 1
        self._fruitless += 1
        if self._fruitless > max(FRUITLESS * self.target, MOST_LOSSES + 1):
            said = f"{self._fruitless} workers died in a row without having played one episode"
            self.stop_run(InfrastructureError(said))

    def stop_run(self, error: TurnwiseError) -> None:
        """Let all who wait for a worker raise an error."""
        self._fatal = self._fatal or error
        self._wake()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _usable(self, avoid: LiveWorker | None) -> list[LiveWorker]:
        """Return the workers that may get an episode once they have a seat; resting ones if there are no others."""
        living = [worker for worker in self.live if not worker.lost.done() and not worker.retiring]
        found = [worker for worker in living if not self.nodes.rests(worker.node)] or living
        if avoid is None:
            return found
        others = [worker for worker in found if worker is not avoid]
        return [worker for worker in others if worker.node != avoid.node] or others or found

    def _starting(self, avoid: LiveWorker, usable: list[LiveWorker]) -> bool:
        """Whether no usable worker is on another node, but further workers are about to start."""
        return len(self.live) < self.target and not any(worker.node != avoid.node for worker in usable)

    def _reserve(self, usable: list[LiveWorker], held: LiveWorker | None) -> LiveWorker | None:
        """Reserve the worker that is empty first, so that it gets no more leases; return it if there is one.

        Args:
            usable: workers that may get the episode.
            held: worker that is reserved for it so far, kept unless it is not usable or another one is empty.
        """
        own = [worker for worker in usable if worker is held or not (worker.reserved or worker.alone)]
        ready = [worker for worker in own if not worker.leases and self._seats(worker)]
        chosen = min(ready or own, key=lambda worker: (worker is not held, worker.leases), default=None)
        if chosen is not held:
            self._unreserve(held)
        if chosen is not None:
            chosen.reserved = True
        return chosen

    def _unreserve(self, worker: LiveWorker | None) -> None:
        if worker is not None:
            worker.reserved = False
            self._wake()

    def _has_room(self, worker: LiveWorker, reserved: LiveWorker | None, *, alone: bool) -> bool:
        """Whether a worker can get a lease now."""
        if alone:
            return worker is reserved and not worker.leases and self._seats(worker) > 0
        return not (worker.reserved or worker.alone) and worker.leases < self._seats(worker)

    def _seats(self, worker: LiveWorker) -> int:
        """Return the number of seats of a worker; a node on trial has one in all."""
        if not self.nodes.on_trial(worker.node):
            return worker.seats
        return 0 if any(other.leases for other in self.live if other.node == worker.node) else 1

    def _note_death(self, worker: LiveWorker) -> None:
        """Note a death at once: an episode that it ends must not have ended before, or the death would wait for it."""
        in_service = worker in self.live and not worker.retiring
        if in_service and self._unexplained.note(worker, worker.node, worker.playing):
            self._judge_node(worker, worked=False)

    def _judge(self, worker: LiveWorker, *, worked: bool) -> None:
        """Let the circuit breakers know how a lease ended. A node that rests keeps its workers for its trial."""
        alone = self._places.note(str(worker.pid), worked=worked)
        if not self._judge_node(worker, worked=worked) and alone and not self.nodes.rests(worker.node):
            self.retire(worker, "all its episodes fail, and not those of other workers")

    def _judge_node(self, worker: LiveWorker, *, worked: bool) -> bool:
        """Let the circuit breaker of nodes know how a lease or a worker ended; return whether its node now rests."""
        if seconds := self.nodes.note(worker.node, worked=worked):
            text = f"all episodes fail on node {worker.address}, and not elsewhere: it rests for {seconds:.0f} s"
            event(LOG, "node rests", text, {"node": worker.node, "seconds": seconds}, level=logging.WARNING)
            self._resting.add(asyncio.get_running_loop().call_later(seconds, self._wake))
        return seconds > 0

    def _wake(self) -> None:
        self._changed.wake(every=True)

    async def _follow(self) -> None:
        """Have one keeper for each place, as nodes join, drain and leave."""
        while self._fatal is None:
            try:
                nodes = await asyncio.to_thread(nodes_now)
                self._reconcile(nodes)
            except (RayError, OSError, RuntimeError) as error:
                event(LOG, "nodes", f"the cluster does not tell its nodes: {error}", level=logging.DEBUG)
            if not self.live and time.monotonic() - self._without_since > self._config.start_timeout:
                self.stop_run(await asyncio.to_thread(self._none_started))
            await asyncio.sleep(LOOK)

    def _reconcile(self, nodes: Nodes) -> None:
        wanted = slots_of(self._config, nodes)
        for slot in wanted - self._keepers.keys():
            keeper = Keeper(self, self._config, self._setup, self._key, slot[0])
            task = asyncio.create_task(keeper.keep(), name="turnwise-ray-worker")
            self._keepers[slot] = keeper, task
            task.add_done_callback(partial(self._kept, slot))
        for slot in self._keepers.keys() - wanted:
            self._keepers[slot][0].last()
        for worker in self.live:
            if worker.node in nodes.draining:
                self.retire(worker, f"its node {worker.address} is drained")

    def _kept(self, slot: Slot, task: asyncio.Task[None]) -> None:
        """Forget a keeper that ended."""
        self._keepers.pop(slot, None)
        self._stop_on_defect("the keeper of a worker", task)

    def _stop_on_defect(self, what: str, task: asyncio.Task[None]) -> None:
        """Stop the run if a task ended by an error: who waits for a worker would otherwise wait forever."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop_run(InfrastructureError(f"{what} failed: {error!r}"))

    def _none_started(self) -> UsageError:
        config = self._config
        free = {name: amount for name, amount in ray.available_resources().items() if ":" not in name}
        shown = ", ".join(f"{amount:g} {name}" for name, amount in sorted(free.items())) or "none"
        return UsageError(
            f"no worker started within {config.start_timeout:g} s (rollouts.start_timeout): one needs "
            f"{config.resources}, and free are {shown}"
        )
