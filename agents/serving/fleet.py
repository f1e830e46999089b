"""The replicas of a policy together: who is asked, what is asked again, and what waits while weights change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence

from ...errors import InfrastructureError, UsageError
from ..policy import Finish, Sampling
from .http.routes import START
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
        patience: seconds without an answer from any replica after which a request fails.
        backoff: seconds until a replica that failed is looked at again; doubled each time.
        version: of the weights that are served at first.

    Raises:
        UsageError: no servers, two of one address, or limits that make no sense.
    """

    def __init__(
        self, servers: Sequence[Server], *, max_in_flight: int, patience: float, backoff: float, version: int
    ) -> None:
        addresses = [server.address for server in servers]
        if not servers:
            raise UsageError("a served policy needs the address of at least one server")
        if len(set(addresses)) < len(addresses):
            raise UsageError(f"each server is to be named once; got {', '.join(addresses)}")
        if max_in_flight < 1:
            raise UsageError(f"max_in_flight {max_in_flight} lets no request through")
        longest = min(LONGEST_BACKOFF, patience / 4)  # a request that waits has more than one look
        self.replicas = [Replica(server, max_in_flight, backoff, longest) for server in servers]
        self.patience = patience
        self.now = Stamp(version, None)
        self.moved = False
        """Weights are no longer those that the servers were started with."""
        self.control = False
        """This process changes the weights; others only use them."""
        self.paused = False
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
            replica = await self._choose(session)
            if replica is None:
                deadline = deadline or clock() + self.patience
                await self._wait_for_one(clock(), deadline)
                continue
            async with replica.room:
                if self.paused or not replica.up:
                    continue
                stamp = self.now
                try:
                    served = await self._sent(replica, prompt, sampling, session, stamp)
                except InfrastructureError as error:
                    replica.failed(error, clock())
                    deadline = deadline or clock() + self.patience
                    continue
            if served is not None:
                return served, stamp

    async def _sent(
        self, replica: Replica, prompt: tuple[int, ...], sampling: Sampling, session: str, stamp: Stamp
    ) -> Served | None:
        """What the replica answered; ``None`` if a pause took the request back."""
        asked = replica.server.generate(prompt, sampling, session=session, adapter=stamp.adapter)
        task = asyncio.ensure_future(asked)
        replica.running[task] = stamp
        try:
            served = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task in replica.withdrawn and not (current and current.cancelling()):
                return None
            raise
        finally:
            replica.running.pop(task, None)
            replica.withdrawn.discard(task)
        if replica.named and stamp.adapter is None and served.completion.token_ids and not served.spans:
            raise InfrastructureError(
                f"server {replica.address} has forgotten what its weights are called: it was restarted meanwhile"
            )
        if served.completion.finish is Finish.ABORT and not served.completion.token_ids and not self.paused:
            raise InfrastructureError(f"server {replica.address} aborted a request before its first token")
        return served

    async def _choose(self, session: str) -> Replica | None:
        """The replica that the session prefers among those that are well; one that was not is looked at again."""
        for replica in preferred(self.replicas, session):
            if replica.up:
                return replica
            now = asyncio.get_running_loop().time()
            if replica.stale or replica.due > now:
                continue
            if await replica.look_again(now, moved=self.moved):
                if self.control:
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
            waited = f"for {self.patience:g} s" if hopeful else "with the policy's weights"
            raise InfrastructureError(f"no server of the policy answers {waited}: {self.causes}")
        due = min(replica.due for replica in hopeful)
        await asyncio.sleep(min(max(due - now, GLANCE), deadline - now))

    # -- all of them ---------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Let no request through."""
        self.paused = True
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
        """What is wrong with the replicas that something is wrong with."""
        return "; ".join(replica.cause for replica in self.replicas if replica.failures or replica.stale)


async def _woken(server: Server) -> None:
    with contextlib.suppress(UsageError):  # whatever is wrong with it, probing says it better
        await server.resume()
