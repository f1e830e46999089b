"""The workers of a run: started, chosen, watched, and replaced when they die."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from ...errors import InfrastructureError, TurnwiseError, UsageError
from ...logs import event
from ..options import RolloutsConfig
from .lease import versions
from .node import first_line
from .worker import Worker

LOG = logging.getLogger(__name__)
CONTROL = 16
"""Calls of a worker beyond its episodes that may run at once."""
CLOSING = 10.0
"""Seconds for workers to close their environments before they are killed."""
FRUITLESS = 4
"""Number of deaths per worker without a single episode between them, after which the run stops."""
LONGEST_PAUSE = 30.0
"""Maximum seconds between two starts of a worker."""
PINGS = 4
"""Number of pings within ``worker_timeout``."""


class WorkerLostError(Exception):
    """A worker died; what it was playing is to be played by another."""


class LiveWorker:
    """One worker that is ready.

    Args:
        actor: handle of the actor.
        seats: number of episodes that it plays at a time.
        pid: id of its process.
    """

    def __init__(self, actor: Any, seats: int, pid: int) -> None:
        self.actor, self.seats, self.pid = actor, seats, pid
        self.leases = 0
        self.lost = asyncio.get_running_loop().create_future()


class Workers:
    """Keeps ``workers`` workers alive.

    Args:
        config: settings of the rollouts.
        setup: pickled ``WorkerSetup``.
    """

    def __init__(self, config: RolloutsConfig, setup: bytes) -> None:
        self._config, self._setup = config, setup
        self.live: list[LiveWorker] = []
        self.deaths = 0
        self._fruitless = 0
        self._fatal: TurnwiseError | None = None
        self._changed = asyncio.Condition()
        self._keepers = [asyncio.create_task(self._keep(), name="turnwise-ray-worker") for _ in range(config.workers)]

    async def acquire(self) -> LiveWorker:
        """Return the worker with the fewest leases that has room for another; wait for one if there is none.

        Raises:
            UsageError: the workers cannot be used, or none started in time.
            InfrastructureError: all of them keep dying.
        """
        async with self._changed:
            while True:
                if self._fatal is not None:
                    raise type(self._fatal)(str(self._fatal))
                free = [worker for worker in self.live if worker.leases < worker.seats and not worker.lost.done()]
                if free:
                    chosen = min(free, key=lambda worker: worker.leases)
                    chosen.leases += 1
                    return chosen
                await self._changed.wait()

    async def release(self, worker: LiveWorker, *, fruitful: bool) -> None:
        """Return a lease; ``fruitful``: it ended with an answer."""
        async with self._changed:
            worker.leases -= 1
            if fruitful:
                self._fruitless = 0
            self._changed.notify()

    async def call(self, worker: LiveWorker, reference: Any) -> Any:
        """Return the answer of a call.

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
            self._mark_lost(worker, str(error))
            raise WorkerLostError(str(error)) from None
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)

    async def close(self) -> None:
        """Close all workers; none is left."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        self.live.clear()

    def _mark_lost(self, worker: LiveWorker, why: str) -> None:
        if not worker.lost.done():
            worker.lost.set_result(why)

    async def _keep(self) -> None:
        """Keep one worker alive: start it, watch it, and start another when it dies."""
        pause, without_since = 0.0, time.monotonic()
        while self._fatal is None:
            actor = self._actor()
            try:
                worker = await self._opened(actor, without_since)
                pause, started = 0.0, time.monotonic()
                why = await self._watched(worker)
                event(
                    LOG,
                    "worker lost",
                    f"a worker died with {worker.leases} episodes, which others play again: {first_line(why)}",
                    {"pid": worker.pid, "episodes": worker.leases},
                    level=logging.WARNING,
                )
                pause = 0.0 if time.monotonic() - started > LONGEST_PAUSE else pause
            except (UsageError, InfrastructureError) as error:
                await self._stop_run(error)
            except (RayError, TimeoutError, OSError) as error:
                event(LOG, "worker lost", f"a worker could not start: {first_line(error)}")
            finally:
                await self._ended(actor)
            self.deaths += 1
            self._fruitless += 1
            if self._fruitless > FRUITLESS * self._config.workers:
                await self._stop_run(
                    InfrastructureError(f"{self._fruitless} workers died in a row without having played one episode")
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause or 0.5, LONGEST_PAUSE)
            without_since = time.monotonic()

    async def _opened(self, actor: Any, since: float) -> LiveWorker:
        """Wait until a worker is ready.

        Raises:
            UsageError: it cannot be used; the message says why.
        """
        config = self._config
        ready = asyncio.ensure_future(awaited(actor.versions.remote()))
        try:
            while not (await asyncio.wait([ready], timeout=1.0))[0]:
                if not self.live and time.monotonic() - since > config.start_timeout:
                    raise UsageError(
                        f"no worker started within {config.start_timeout:g} s (rollouts.start_timeout): one needs "
                        f"{config.resources}, and free are {_public(ray.available_resources())}"
                    )
            found = dict(ready.result())
        except RayActorError as error:
            if cause := import_error(error):
                own = versions()["Turnwise"]
                raise UsageError(f"the workers cannot import Turnwise ({cause}): install version {own} there") from None
            raise
        finally:
            ready.cancel()
            await asyncio.gather(ready, return_exceptions=True)
        pid = int(found.pop("pid"))
        refuse_mismatch(found)
        problem = await awaited(actor.open.remote(list(sys.path), self._setup))
        if problem:
            raise UsageError(
                f"the workers cannot create the environment ({problem}); install what it needs there, or send it "
                "along: rollouts.runtime_env = { working_dir = '.' }"
            )
        worker = LiveWorker(actor, config.episodes_per_worker, pid)
        event(LOG, "start", "a worker is ready", {"pid": pid})
        async with self._changed:
            self.live.append(worker)
            self._changed.notify_all()
        return worker

    async def _watched(self, worker: LiveWorker) -> str:
        """Return why a worker died; one that gives no sign of life is killed."""
        limit = self._config.worker_timeout
        missed = 0
        while not worker.lost.done():
            ping = asyncio.ensure_future(awaited(worker.actor.ping.remote()))
            try:
                before = time.monotonic()
                await asyncio.wait([ping, worker.lost], timeout=limit / PINGS, return_when=asyncio.FIRST_COMPLETED)
                # Count pings and not seconds: this process hears nothing while it learns.
                if ping.done():
                    ping.result()
                    missed = 0
                elif (missed := missed + 1) > PINGS:
                    self._mark_lost(worker, f"no sign of life for {limit:g} s (rollouts.worker_timeout)")
                await asyncio.wait([worker.lost], timeout=max(0.0, limit / PINGS - (time.monotonic() - before)))
            except RayError as error:
                self._mark_lost(worker, str(error))
            finally:
                ping.cancel()
                await asyncio.gather(ping, return_exceptions=True)
        return str(worker.lost.result())

    async def _ended(self, actor: Any) -> None:
        """Take a worker out of service, and let it close its environments."""
        gone = [worker for worker in self.live if worker.actor is actor]
        self.live = [worker for worker in self.live if worker.actor is not actor]
        for worker in gone:
            if not worker.lost.done():  # the run ended, and the worker lives
                self._mark_lost(worker, "the run is over")
                with contextlib.suppress(RayError, TimeoutError):
                    await asyncio.wait_for(awaited(actor.close.remote()), CLOSING)
        with contextlib.suppress(Exception):
            ray.kill(actor)

    async def _stop_run(self, error: TurnwiseError) -> None:
        async with self._changed:
            self._fatal = self._fatal or error
            self._changed.notify_all()

    def _actor(self) -> Any:
        config, needs = self._config, dict(self._config.resources)
        options: dict[str, Any] = {"num_cpus": needs.pop("CPU", 0.0), "num_gpus": needs.pop("GPU", 0.0)}
        if memory := needs.pop("memory", 0.0):
            options["memory"] = int(memory)
        if config.runtime_env:
            options["runtime_env"] = config.runtime_env
        return (
            ray.remote(Worker)
            .options(
                **options,
                resources=needs or None,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=config.episodes_per_worker + CONTROL,
                scheduling_strategy="SPREAD",
            )
            .remote()
        )


def refuse_mismatch(found: Mapping[str, str]) -> None:
    """Refuse workers with other versions than this process.

    Args:
        found: ``versions()`` of a worker.

    Raises:
        UsageError: they differ; the message names both.
    """
    for name, own in versions().items():
        if found.get(name) != own:
            raise UsageError(
                f"the workers have {name} {found.get(name)} and the driver has {own}: an episode must mean the same on "
                "both; install the same version, or set rollouts.runtime_env"
            )


async def awaited(reference: Any) -> Any:
    """Return the value of a reference, for calls that take coroutines only."""
    return await reference


def import_error(error: BaseException) -> str:
    """Return the line of an error that says which module a process cannot import; empty if it is another error."""
    text = str(error)
    if "ModuleNotFoundError" not in text and "ImportError" not in text:
        return ""
    lines = [line.strip() for line in text.splitlines() if "Error:" in line]
    return lines[-1] if lines else first_line(error)


def _public(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(resources.items()) if ":" not in name) or "none"
