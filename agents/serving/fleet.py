"""The replicas of a policy together: who is asked, what is asked again, and what waits while weights change."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Collection, Sequence

from ...errors import InfrastructureError, PolicyServerError, UsageError
from ..policy import Finish, Sampling
from .http.routes import START
from .limits import TimeLimits
from .replica import Replica, Stamp, preferred
from .server import Capabilities, Served, Server

LONGEST_BACKOFF = 5.0
"""Seconds between two looks at a replica that is down, at most."""
GLANCE = 0.05
"""Seconds between two looks for a replica while another request is looking already."""


class Fleet:
    """Replicas of one model.

    Args:
        servers: the replicas.
        max_in_flight: the most requests under way at each of them.
        limits: how long a request may take, and for how long after its first failure it is sent again.
        backoff: seconds until a replica that failed is looked at again; doubled each time.
        version: of the weights that are served at first.

    Raises:
        UsageError: no servers, two of one address, or limits that make no sense.
    """

    def __init__(
        self, servers: Sequence[Server], *, max_in_flight: int, limits: TimeLimits, backoff: float, version: int
    ) -> None:
        addresses = [server.address for server in servers]
        if not servers:
            raise UsageError("a served policy needs the address of at least one server")
        if len(set(addresses)) < len(addresses):
            raise UsageError(f"each server is to be named once; got {', '.join(addresses)}")
        if max_in_flight < 1:
            raise UsageError(f"max_in_flight {max_in_flight} lets no request through")
        longest = min(LONGEST_BACKOFF, limits.patience / 4)  # a request that waits has more than one look
        self.replicas = [Replica(server, max_in_flight, backoff, longest) for server in servers]
        self.limits = limits
        self.now = Stamp(version, None)
        self.moved = False
        """Weights are no longer those that the servers were started with."""
        self.control = False
        """This process changes the weights; others only use them."""
        self.paused = False
        self._pauses = 0
        self.opening = asyncio.Lock()
        self._gate = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def live(self) -> tuple[Server, ...]:
        """The replicas that are not known to be down."""
        return tuple(replica.server for replica in self.replicas if not replica.failures)

    def enter_loop(self) -> None:
        """Forget what belonged to an earlier event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop, self._gate, self.opening = loop, asyncio.Event(), asyncio.Lock()
        if not self.paused:
            self._gate.set()
        for replica in self.replicas:
            replica.due = 0.0
            replica.enter_loop()

    async def probe(self, *, control: bool) -> list[Capabilities]:
        """Ask every replica what it can do; all must be there, and be alike.

        Raises:
            UsageError: a replica cannot be used, does not match the others, or cannot be controlled.
            InfrastructureError: one cannot be reached.
        """
        if control:  # a server that an earlier run left paused would not answer
            await asyncio.gather(*(_woken(replica.server) for replica in self.replicas))
        found = await asyncio.gather(*(replica.server.probe() for replica in self.replicas))
        for replica, one in zip(self.replicas, found, strict=True):
            if (one.model, one.context_length) != (found[0].model, found[0].context_length):
                raise UsageError(
                    f"server {replica.address} serves {one.model!r} with a context of {one.context_length}, and "
                    f"server {self.replicas[0].address} {found[0].model!r} with {found[0].context_length}; replicas "
                    "of one policy must be alike"
                )
            if control and not one.control:
                raise UsageError(
                    f"server {replica.address} was started without its development mode, and its weights cannot be "
                    f"changed; start it with {START}"
                )
            replica.capabilities = one
        return found

    # -- one request ---------------------------------------------------------------------------------------------

    async def ask(self, prompt: tuple[int, ...], sampling: Sampling, session: str) -> tuple[Served, Stamp]:
        """One answer, of whichever replica gives it, and what it was asked under.

        Raises:
            InfrastructureError: none has answered for as long as is waited.
        """
        clock = asyncio.get_running_loop().time
        deadline: float | None = None
        while True:
            await self._gate.wait()
            if deadline is None and not any(replica.up for replica in self.replicas):
                deadline = clock() + self.limits.patience
            try:
                async with asyncio.timeout_at(deadline):
                    replica = await self._choose(session)
            except TimeoutError:
                raise self._silent() from None
            if replica is None:
                deadline = deadline or clock() + self.limits.patience
                await self._wait_for_one(clock(), deadline)
                continue
            async with replica.room:
                if self.paused or not replica.up:
                    continue
                stamp, left = self.now, math.inf if deadline is None else deadline - clock()
                if left <= 0:
                    raise self._silent()
                try:
                    served = await self._sent(replica, prompt, sampling, session, stamp, left)
                except InfrastructureError as error:
                    if deadline is not None and clock() >= deadline:
                        raise self._silent() from None  # why it failed before says more than that time is up
                    replica.failed(error, clock())
                    deadline = deadline or clock() + self.limits.patience
                    continue
            if served is not None:
                return served, stamp

    async def _sent(
        self,
        replica: Replica,
        prompt: tuple[int, ...],
        sampling: Sampling,
        session: str,
        stamp: Stamp,
        left: float,
    ) -> Served | None:
        """What the replica answered; ``None`` if a pause took the request back."""
        asked = replica.server.generate(prompt, sampling, session=session, adapter=stamp.adapter)
        task = asyncio.ensure_future(asked)
        replica.running[task] = stamp
        try:
            await self._in_time(task, replica.address, min(left, self.limits.request))
            served = task.result()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task in replica.withdrawn and not (current and current.cancelling()):
                return None
            raise
        finally:
            replica.running.pop(task, None)
            replica.withdrawn.discard(task)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        self._check(replica, served, stamp)
        return served

    async def _in_time(self, task: asyncio.Task[Served], address: str, seconds: float) -> None:
        """Wait for an answer. The clock starts again after a pause: a request that was frozen is nobody's fault.

        Raises:
            PolicyServerError: there is none in time.
        """
        while True:
            before = self._pauses
            done, _ = await asyncio.wait([task], timeout=seconds)
            if done:
                return
            if not self.paused and before == self._pauses:
                raise PolicyServerError(f"server {address} has not answered within {seconds:.3g} s")

    def _check(self, replica: Replica, served: Served, stamp: Stamp) -> None:
        """Hold an answer against the state of the replica.

        Raises:
            InfrastructureError: the replica was restarted, aborted the request, or gives versions that cannot be.
        """
        ids = served.completion.token_ids
        if replica.named and stamp.adapter is None and ids and not served.spans:
            raise InfrastructureError(
                f"server {replica.address} has forgotten what its weights are called: it was restarted meanwhile"
            )
        told = [version for version, _, _ in served.spans] if replica.named and stamp.adapter is None else []
        if told and not stamp.version <= min(told) <= max(told) <= self.now.version:
            raise PolicyServerError(
                f"server {replica.address} says that versions {sorted(set(told))} sampled, and it has had "
                f"{stamp.version} to {self.now.version} since it was asked"
            )
        if served.completion.finish is Finish.ABORT and not ids and not self.paused:
            raise InfrastructureError(f"server {replica.address} aborted a request before its first token")

    async def _choose(self, session: str) -> Replica | None:
        """The replica that the session prefers among those that are well; one that was not is looked at again."""
        for replica in preferred(self.replicas, session):
            if replica.up:
                return replica
            now = asyncio.get_running_loop().time()
            if replica.stale or replica.due > now:
                continue
            if await replica.look_again(now, moved=self.moved):
                if self.control and not replica.named:
                    await self.name([replica])
                return replica
        return None

    async def _wait_for_one(self, now: float, deadline: float) -> None:
        """Wait until a replica may be looked at again.

        Raises:
            InfrastructureError: all have been down for longer than is waited for, or are of no use before they are
                sent weights.
        """
        hopeful = [replica for replica in self.replicas if not replica.stale]
        if not hopeful or now >= deadline:
            raise self._silent()
        due = min(replica.due for replica in hopeful)
        await asyncio.sleep(min(max(due - now, GLANCE), deadline - now))

    def _silent(self) -> InfrastructureError:
        hopeful = any(not replica.stale for replica in self.replicas)
        waited = f"for {self.limits.patience:g} s" if hopeful else "with the policy's weights"
        return InfrastructureError(f"no server of the policy answers {waited}: {self.causes}")

    # -- all of them ---------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Let no request through."""
        self.paused = True
        self._pauses += 1
        self._gate.clear()

    def release(self) -> None:
        """Let requests through again."""
        self.paused = False
        self._gate.set()

    async def each(
        self, verb: Callable[[Server], Awaitable[None]], replicas: Collection[Replica] | None = None
    ) -> list[Replica]:
        """Do something at every replica that is there; one that is not is left out until it is looked at again."""
        there = [r for r in (self.replicas if replicas is None else replicas) if not r.failures]
        results = await asyncio.gather(*(verb(replica.server) for replica in there), return_exceptions=True)
        for replica, result in zip(there, results, strict=True):
            if isinstance(result, InfrastructureError):
                replica.failed(result, asyncio.get_running_loop().time())
            elif isinstance(result, BaseException):
                raise result
        return [replica for replica in there if not replica.failures]

    async def name(self, replicas: Collection[Replica]) -> None:
        """Tell replicas that keep versions what their weights are called."""
        told = [r for r in replicas if r.capabilities and r.capabilities.version_spans and r.capabilities.control]
        version = self.now.version
        for replica in await self.each(lambda server: server.name_version(version), told):
            replica.named = True

    async def roll_call(self) -> tuple[Server, ...]:
        """The replicas that are there; those that were down are looked at again.

        Raises:
            InfrastructureError: none is there.
        """
        now = asyncio.get_running_loop().time()
        down = [replica for replica in self.replicas if replica.failures]
        await asyncio.gather(*(replica.look_again(now, moved=self.moved) for replica in down))
        if not self.live:
            raise InfrastructureError(f"no server of the policy is there: {self.causes}")
        return self.live

    async def finished(self, chosen: Callable[[Stamp], bool]) -> None:
        """Wait until no request sent under one of these is under way."""
        while waited := [task for r in self.replicas for task, stamp in r.running.items() if chosen(stamp)]:
            await asyncio.wait(waited)
            await asyncio.sleep(0)

    async def take_back(self, grace: float) -> None:
        """Wait a little for what is under way; what is then left is asked again when requests are let through."""
        if tasks := [task for replica in self.replicas for task in replica.running]:
            await asyncio.wait(tasks, timeout=grace)
        for replica in self.replicas:
            replica.withdraw()

    @property
    def causes(self) -> str:
        """What is wrong with the replicas that something is wrong with; or what was wrong, if nothing is by now."""
        wrong = [replica.cause for replica in self.replicas if replica.failures or replica.stale]
        return "; ".join(wrong or [replica.cause for replica in self.replicas if replica.cause])


async def _woken(server: Server) -> None:
    with contextlib.suppress(UsageError):  # whatever is wrong with it, probing says it better
        await server.resume()
