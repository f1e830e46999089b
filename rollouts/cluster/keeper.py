"""One place for a worker: a worker is started there, watched, retired when it must, and replaced."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...errors import InfrastructureError, TurnwiseError, UsageError
from ...logs import event
from ..options import RolloutsConfig
from .lease import versions
from .lease_channel import LeaseChannel
from .node import first_line
from .worker import Worker

LOG = logging.getLogger(__name__)
CONTROL = 16
"""Calls of a worker's actor that may run at once."""
CLOSING = 10.0
"""Seconds for workers to close their environments and to run their exit handlers before they are killed."""
LONGEST_PAUSE = 30.0
"""Maximum seconds between two starts of a worker."""
PINGS = 4
"""Number of pings within ``worker_timeout``."""


class LiveWorker:
    """One worker that is ready.

    Args:
        actor: handle of the actor.
        seats: number of episodes that it plays at a time.
        pid: id of its process.
        node: id of its node.
        address: address of its node, for messages.
    """

    def __init__(self, actor: Any, seats: int, pid: int, node: str = "", address: str = "") -> None:
        self.actor, self.seats, self.pid, self.node, self.address = actor, seats, pid, node, address
        self.channel: LeaseChannel | None = None
        self.leases = 0
        self.agent = ""
        """Digest of the agent that it has played last, and so need not be sent."""
        self.playing: dict[str, int] = {}
        """Names of the leases that it has, also once it died with them, and the number of episodes of each."""
        self.reserved = self.alone = False
        """Whether an episode waits until this worker is empty, and whether one is played here without others."""
        self.retiring = ""
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.emptied = asyncio.Event()
        self.on_lost: Callable[[LiveWorker], None] | None = None
        """Called when it is lost, before its episodes know."""

    def mark_lost(self, why: str) -> None:
        """Let all who wait for an answer know that there will be none."""
        if not self.lost.done():
            self.lost.set_result(why)
            if self.on_lost is not None:
                self.on_lost(self)
            if self.channel is not None:
                self.channel.close(why)


class Staff(Protocol):
    """The part of ``Workers`` that a keeper reports to."""

    def began(self, worker: LiveWorker) -> None:
        """Add a worker that is ready."""

    def ended(self, worker: LiveWorker) -> None:
        """Remove a worker."""

    def retire(self, worker: LiveWorker, why: str) -> None:
        """Let a worker end after its episodes."""

    def died(self) -> None:
        """Count a worker that died or could not start."""

    def stop_run(self, error: TurnwiseError) -> None:
        """Stop the run with an error."""


class Keeper:
    """Keeps one worker alive.

    Args:
        staff: all workers of the run.
        config: settings of the rollouts.
        setup: pickled ``WorkerSetup``.
        key: key of the run.
        node: id of the node on which it must run; empty for any.
    """

    def __init__(self, staff: Staff, config: RolloutsConfig, setup: bytes, key: str, node: str) -> None:
        self._staff, self._config, self._setup, self._key, self._node = staff, config, setup, key, node
        self._worker: LiveWorker | None = None
        self._task: asyncio.Task[None] | None = None
        self._last = self._stopped = False

    def last(self) -> None:
        """Start no other worker here: the node leaves. The one that is there ends after its episodes."""
        self._last = True
        if self._worker is not None:
            self._staff.retire(self._worker, "its node leaves the cluster")
        elif self._task is not None:
            self._task.cancel()

    async def keep(self) -> None:
        """Start a worker, watch it, and start another when it ends."""
        self._task, pause = asyncio.current_task(), 0.0
        while not (self._last or self._stopped):
            actor = self._actor()
            started, died = time.monotonic(), True
            try:
                self._worker = await self._opened(actor)
                self._staff.began(self._worker)
                started = time.monotonic()
                died = await self._watched(self._worker)
            except (UsageError, InfrastructureError) as error:
                self._stopped = True
                self._staff.stop_run(error)
            except (RayError, TimeoutError, OSError) as error:
                event(LOG, "worker lost", f"a worker could not start: {first_line(error)}")
            finally:
                await self._end(actor)
            if died:
                self._staff.died()
                pause = 0.0 if time.monotonic() - started > LONGEST_PAUSE else pause
                await asyncio.sleep(pause)
                pause = min(2 * pause or 0.5, LONGEST_PAUSE)

    async def _opened(self, actor: Any) -> LiveWorker:
        """Wait until a worker is ready.

        Raises:
            UsageError: it cannot be used; the message says why.
        """
        config = self._config
        try:
            found = dict(await awaited(actor.versions.remote()))
        except RayActorError as error:
            if cause := import_error(error):
                own = versions()["Turnwise"]
                raise UsageError(f"the workers cannot import Turnwise ({cause}): install version {own} there") from None
            raise
        pid, node, address = int(found.pop("pid")), found.pop("node"), found.pop("address")
        refuse_mismatch(found)
        problem, port = await awaited(actor.open.remote(list(sys.path), self._setup))
        if problem:
            raise UsageError(
                f"the workers cannot create the environment ({problem}); install what it needs there, or send it "
                "along: rollouts.runtime_env = { working_dir = '.' }"
            )
        if (limit := config.worker_memory) is not None:
            _, used = await awaited(actor.ping.remote(measure=True))
            if used > limit:
                raise UsageError(
                    f"a worker occupies {used / 1e9:.2f} GB before its first episode, and rollouts.worker_memory is "
                    f"{limit / 1e9:.2f} GB: set it well above"
                )
        worker = LiveWorker(actor, config.episodes_per_worker, pid, node, address)
        worker.channel = await LeaseChannel.open((address, port), self._key, worker.mark_lost)
        event(LOG, "start", "a worker is ready", {"pid": pid})
        return worker

    async def _watched(self, worker: LiveWorker) -> bool:
        """Wait for the end of a worker; return whether it died. One that gives no sign of life is killed."""
        limit, memory = self._config.worker_timeout, self._config.worker_memory
        missed, emptied = 0, asyncio.ensure_future(worker.emptied.wait())
        ends: list[asyncio.Future[Any]] = [worker.lost, emptied]
        try:
            while not (worker.lost.done() or emptied.done()):
                ping = asyncio.ensure_future(awaited(worker.actor.ping.remote(measure=memory is not None)))
                try:
                    before = time.monotonic()
                    await asyncio.wait([ping, *ends], timeout=limit / PINGS, return_when=asyncio.FIRST_COMPLETED)
                    # Count pings and not seconds: this process hears nothing while it learns.
                    if ping.done():
                        self._consider(worker, ping.result()[1])
                        missed = 0
                    elif (missed := missed + 1) > PINGS:
                        worker.mark_lost(f"no sign of life for {limit:g} s (rollouts.worker_timeout)")
                    rest = max(0.0, limit / PINGS - (time.monotonic() - before))
                    await asyncio.wait(ends, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
                except RayError as error:
                    worker.mark_lost(str(error))
                finally:
                    ping.cancel()
                    await asyncio.gather(ping, return_exceptions=True)
        finally:
            emptied.cancel()
        if not worker.lost.done():
            return False
        had = sum(worker.playing.values())  # its leases have been returned by now
        why = f"a worker died with {had} episodes, which others play again: {first_line(worker.lost.result())}"
        event(LOG, "worker lost", why, {"pid": worker.pid, "episodes": had}, level=logging.WARNING)
        return not worker.retiring

    def _consider(self, worker: LiveWorker, used: int) -> None:
        """Retire a worker that uses too much memory."""
        limit = self._config.worker_memory
        if limit is not None and used > limit:
            said = f"it uses {used / 1e9:.2f} GB, more than {limit / 1e9:.2f} GB (rollouts.worker_memory)"
            self._staff.retire(worker, said)

    async def _end(self, actor: Any) -> None:
        """Take a worker out of service; let it close its environments, and its process run its exit handlers."""
        worker, self._worker = self._worker, None
        try:
            if worker is not None:
                self._staff.ended(worker)
                if not worker.lost.done() and worker.channel is not None:  # it lives
                    worker.mark_lost("the run is over")
                    with contextlib.suppress(RayError, TimeoutError):
                        async with asyncio.timeout(CLOSING):
                            await awaited(actor.close.remote())
                            actor.__ray_terminate__.remote()
                            await worker.channel.ended.wait()  # Ray answers before the exit handlers have run
        finally:  # also if the run ends, or the node leaves, while a retired worker ends
            if worker is not None and worker.channel is not None:
                worker.channel.transport.abort()
            with contextlib.suppress(Exception):
                ray.kill(actor)

    def _actor(self) -> Any:
        config, needs = self._config, dict(self._config.resources)
        options: dict[str, Any] = {"num_cpus": needs.pop("CPU", 0.0), "num_gpus": needs.pop("GPU", 0.0)}
        if memory := needs.pop("memory", 0.0):
            options["memory"] = int(memory)
        if config.runtime_env:
            options["runtime_env"] = config.runtime_env
        strategy = NodeAffinitySchedulingStrategy(self._node, soft=False) if self._node else "SPREAD"
        return (
            ray.remote(Worker)
            .options(
                **options,
                resources=needs or None,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=CONTROL,
                scheduling_strategy=strategy,
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
