"""All replicas of a policy: which are available, and which requests wait while weights change."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from ...errors import InfrastructureError, UsageError
from ...logs import event
from ..pausable_clock import PausableClock
from .affinity import Affinity
from .fan_out import fan_out
from .http.routes import START
from .limits import TimeLimits
from .replica import Replica, WeightTag
from .server import Capabilities, Pausable, Sampler, Sleeper, pausable

LOG = logging.getLogger(__name__)
LONGEST_BACKOFF = 5.0
"""Maximum seconds between two probes of a replica that is down."""
GLANCE = 0.05
"""Seconds between two searches for a replica while another request is probing it."""

Refresh = Callable[[Sampler], Awaitable[None]]
"""A function that gives one server the weights that the policy has; it raises if the server does not have them then."""


class ReplicaSet:
    """Replicas of one model.

    Args:
        servers: servers of the same model.
        max_in_flight: maximum number of requests in flight at each replica.
        limits: time limits of a request and of its search for a replica.
        backoff: seconds until a replica that failed is probed again; doubles each time.
        version: version of the weights that the servers have at first.

    Raises:
        UsageError: there are no servers, two have the same address, or a limit is out of range.
    """

    def __init__(
        self, servers: Sequence[Sampler], *, max_in_flight: int, limits: TimeLimits, backoff: float, version: int
    ) -> None:
        addresses = [server.address for server in servers]
        if not servers:
            raise UsageError("a served policy needs the URL of at least one server")
        if len(set(addresses)) < len(addresses):
            raise UsageError(f"name each server once; got {', '.join(addresses)}")
        if max_in_flight < 1:
            raise UsageError(f"max_in_flight must be at least 1; got {max_in_flight}")
        longest = min(LONGEST_BACKOFF, limits.patience / 4)  # a waiting request gets more than one probe
        self.members = [Replica(server, max_in_flight, backoff, longest) for server in servers]
        self._affinity: Affinity[Replica] = Affinity()
        self.limits = limits
        self.now = WeightTag(version, None)
        self.weights_changed = False
        """Whether the weights have changed since the servers started."""
        self.control = False
        """Whether this process changes the weights; others only use them."""
        self.paused = False
        self.pauses = 0
        self.open_clock, self.unfrozen_clock = PausableClock(), PausableClock()
        """Seconds in which requests could start, and seconds in which those in flight were not frozen."""
        self.refresh: Refresh | None = None
        self.refreshable = False
        """Whether replicas with old weights are brought up to date, now or once ``refresh`` is there again."""
        self.opening = asyncio.Lock()
        self.gate = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def live(self) -> tuple[Sampler, ...]:
        """Replicas that are not known to be down."""
        return tuple(replica.server for replica in self.members if not replica.down)

    def enter_loop(self) -> None:
        """Replace the objects that belong to an earlier event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop, self.gate, self.opening = loop, asyncio.Event(), asyncio.Lock()
        if not self.paused:
            self.gate.set()
        for replica in self.members:
            replica.due = 0.0
            replica.enter_loop()

    async def probe(self, *, control: bool) -> list[Capabilities]:
        """Ask every replica for its capabilities; all that are expected now must answer, and serve the same model.

        Raises:
            UsageError: a replica cannot be used, does not match the others, or cannot be controlled.
            InfrastructureError: a replica cannot be reached.
        """
        asked = [replica for replica in self.members if not replica.joins_later]
        if control:  # a server that an earlier run left paused would not answer
            await asyncio.gather(*(_wake(replica.server) for replica in asked))
        found = await asyncio.gather(*(replica.server.probe() for replica in asked))
        for replica, one in zip(asked, found, strict=True):
            if (one.model, one.context_length) != (found[0].model, found[0].context_length):
                raise UsageError(
                    f"server {replica.address} serves {one.model!r} with a context of {one.context_length}, and server "
                    f"{asked[0].address} {found[0].model!r} with {found[0].context_length}; replicas of one "
                    "policy must be alike"
                )
            if control:
                pausable(replica.server)  # raises if the class cannot; ``control`` says whether this process can
            if control and not one.control:
                raise UsageError(
                    f"server {replica.address} was started without its development mode, so its weights cannot change; "
                    f"start it with {START}"
                )
            replica.capabilities = one
        for replica in self.members:
            if replica.joins_later:  # it has to be like the others, but no process of it was seen
                replica.capabilities = dataclasses.replace(found[0], started=None)
        return found

    # -- one request ---------------------------------------------------------------------------------------------

    def find_up(self, session: str, last: Collection[Replica]) -> Replica | None:
        """Return the replica that the session gets among those that are up, without probing any."""
        up = [replica for replica in self.members if replica.up]
        return next(iter(self._affinity.ordered(up, session, last)), None)

    async def choose(self, session: str, last: Collection[Replica]) -> Replica | None:
        """Return the replica that the session gets among those that are available; probe those that were down.

        Args:
            session: session of the request.
            last: replicas to try after all others.
        """
        order = self._affinity.ordered(self.members, session, last)
        for replica in order:
            if replica.up or await self._back(replica):
                if replica is order[0]:  # otherwise the session returns to the first one when that is back
                    self._affinity.remember(session, replica)
                return replica
        return None

    async def _back(self, replica: Replica) -> bool:
        """Probe a replica that is down, if it is due, and return whether it can take requests."""
        now = asyncio.get_running_loop().time()
        if replica.stale and not self.refreshable:
            return False
        if not replica.stale or replica.down:
            if replica.due > now:
                return False
            await replica.recheck(now, weights_changed=self.weights_changed)
        if replica.stale and not replica.down:
            self._refresh_later(replica)
        if not replica.up:
            return False
        if self.control and not replica.named:
            await self.send_version([replica])
        return True

    def _refresh_later(self, replica: Replica) -> None:
        """Bring a replica up to date in the background, so that no request waits for it while others answer."""
        if self.refresh is None or replica.refused or replica.refreshing is not None:
            return
        replica.due = asyncio.get_running_loop().time()  # requests that wait for any replica notice its end
        replica.refreshing = asyncio.create_task(self._refreshed(replica, self.refresh), name="turnwise-refresh")
        replica.refreshing.add_done_callback(replica.forget_refresh)

    async def _refreshed(self, replica: Replica, refresh: Refresh) -> None:
        """Give a replica the policy's weights; it gets requests only if all of it succeeds in one of its processes."""
        before, server = replica.capabilities, replica.server
        try:
            await refresh(server)
            after = await server.probe()
            if before is None or after.started is None or after.started != before.started:
                raise InfrastructureError(f"server {replica.address} was restarted while it received weights")
            if versioned := after.control and after.version_spans:
                await pausable(server).name_version(self.now.version)
        except InfrastructureError as error:  # it may succeed next time
            replica.record_failure(error, asyncio.get_running_loop().time(), looked=True)
        except Exception as error:  # of any kind: no caller waits for this task
            replica.refused, replica.cause = True, str(error) or type(error).__name__
            text = f"server {replica.address} gets no requests until the next transfer of weights: {error}"
            event(LOG, "server refused", text, {"server": replica.address}, level=logging.WARNING)
        else:
            replica.stale, replica.named, replica.cause = False, versioned, ""
            text = f"server {replica.address} has received version {self.now.version}, and takes part again"
            event(LOG, "server up to date", text, {"server": replica.address, "version": self.now.version})

    async def stop_refreshing(self) -> None:
        """Refresh no replica from now on, and wait for the end of what is in progress; such a replica stays stale."""
        self.refresh = None
        if tasks := [replica.refreshing for replica in self.members if replica.refreshing is not None]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _hopeful(self, replica: Replica) -> bool:
        return not replica.stale or (self.refreshable and not replica.refused)

    async def wait_until_due(self) -> None:
        """Wait until a replica may be probed again.

        Raises:
            InfrastructureError: all replicas need weights first.
        """
        hopeful = [replica for replica in self.members if self._hopeful(replica)]
        if not hopeful:
            raise self.unavailable_error()
        due = min(replica.due for replica in hopeful)
        await asyncio.sleep(max(due - asyncio.get_running_loop().time(), GLANCE))

    def unavailable_error(self) -> InfrastructureError:
        """Return the error that no replica answers."""
        hopeful = any(map(self._hopeful, self.members))
        waited = f"for {self.limits.patience:g} s" if hopeful else "with the policy's weights"
        return InfrastructureError(f"no server of the policy answers {waited}: {self.causes}")

    # -- all replicas --------------------------------------------------------------------------------------------

    def hold(self, *, frozen: bool) -> None:
        """Hold back requests.

        Args:
            frozen: whether requests in flight stop too; otherwise their time counts.
        """
        self.paused = True
        self.pauses += 1
        self.gate.clear()
        self.open_clock.run(False)
        if frozen:
            self.unfrozen_clock.run(False)

    def release(self) -> None:
        """Let requests start again."""
        self.paused = False
        self.gate.set()
        self.open_clock.run(True)
        self.unfrozen_clock.run(True)

    async def call_all(
        self, call: Callable[[Sampler], Awaitable[None]], replicas: Collection[Replica] | None = None
    ) -> list[Replica]:
        """Call every replica that is up and return those that answered; the others are down until rechecked."""
        up = [replica for replica in (self.members if replicas is None else replicas) if not replica.down]
        answers, failures = await fan_out(up, lambda replica: call(replica.server))
        for replica, error in failures:
            replica.record_failure(error, asyncio.get_running_loop().time())
        return [replica for replica, _ in answers]

    async def send_version(self, replicas: Collection[Replica]) -> None:
        """Send the current version to the replicas that keep versions."""
        versioned = [r for r in replicas if r.capabilities and r.capabilities.version_spans and r.capabilities.control]
        version = self.now.version
        for replica in await self.call_all(lambda server: pausable(server).name_version(version), versioned):
            replica.named = True

    async def refresh_health(self) -> tuple[Sampler, ...]:
        """Probe the replicas that were down, and return all that are available.

        Raises:
            InfrastructureError: no replica is available.
        """
        now = asyncio.get_running_loop().time()
        down = [replica for replica in self.members if replica.down]
        await asyncio.gather(*(replica.recheck(now, weights_changed=self.weights_changed) for replica in down))
        if not self.live:
            raise InfrastructureError(f"no server of the policy is available: {self.causes}")
        return self.live

    async def wait_until_finished(self, chosen: Callable[[WeightTag], bool]) -> None:
        """Wait until no request whose tag is ``chosen`` is in flight."""
        while waited := [task for r in self.members for task, tag in r.running.items() if chosen(tag)]:
            await asyncio.wait(waited)
            await asyncio.sleep(0)

    async def requeue_in_flight(self, grace: float) -> None:
        """Wait ``grace`` seconds for requests in flight; the rest is sent again when requests may start again."""
        if tasks := [task for replica in self.members for task in replica.running]:
            await asyncio.wait(tasks, timeout=grace)
        for replica in self.members:
            replica.withdraw()

    @property
    def causes(self) -> str:
        """Reasons why replicas are unavailable, or why they last were if all are available by now."""
        wrong = [replica.cause for replica in self.members if replica.down or replica.stale]
        return "; ".join(wrong or [replica.cause for replica in self.members if replica.cause])


async def _wake(server: Sampler) -> None:
    if isinstance(server, Pausable):
        with contextlib.suppress(UsageError):  # probing reports the reason with a better message
            if isinstance(server, Sleeper) and await server.asleep():
                await server.wake(restore=True)
            await server.resume()
