"""One replica of a served policy: its load and its health."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import InfrastructureError, TurnwiseError
from ...logs import event
from .server import Capabilities, Sampler, ServerResponse

LOG = logging.getLogger(__name__)


class WeightTag(NamedTuple):
    """The weights that a request was sent under: their version, and the adapter on them, if any."""

    version: int
    adapter: str | None


@dataclass(eq=False)
class Replica:
    """A server, and what the policy knows about it.

    Args:
        server: server that gets the requests.
        limit: maximum number of requests in flight.
        backoff: seconds after the first failure until it is probed again; doubles with each failure.
        longest: maximum of these seconds.
    """

    server: Sampler
    limit: int
    backoff: float
    longest: float

    def __post_init__(self) -> None:
        self.capabilities: Capabilities | None = None
        self.down = False
        self.joins_later = False  # it has not started yet
        self.failures = 0  # since its last good answer
        self.last_answer = float("-inf")  # time of its last answer to anything
        self.due = 0.0
        self.cause = ""
        self.stale = False  # it came back with other weights than the policy has
        self.refused = False  # it could not be given these, and a further try would not help
        self.named = False  # it received the name of its weights
        self.enter_loop()

    def enter_loop(self) -> None:
        """Replace the objects that belong to an earlier event loop."""
        self._room = asyncio.Semaphore(self.limit)
        self._checking = asyncio.Lock()
        self.running: dict[asyncio.Task[ServerResponse], WeightTag] = {}
        self.withdrawn: set[asyncio.Task[ServerResponse]] = set()
        self._slots: set[object] = set()
        self.refreshing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for room for a request and hold it; the request counts as load from the start of the wait."""
        slots, mine = self._slots, object()
        slots.add(mine)
        try:
            async with self._room:
                yield
        finally:
            slots.discard(mine)

    @property
    def load(self) -> int:
        """Requests that are in flight or wait for room."""
        return len(self._slots)

    @property
    def address(self) -> str:
        """Address of the server."""
        return self.server.address

    @property
    def up(self) -> bool:
        """Whether it gets requests without being probed first."""
        return not self.down and not self.stale

    def expect(self, why: str) -> None:
        """Do without it until it has started."""
        self.joins_later = self.down = True
        self.cause = why

    def record_failure(self, error: Exception, now: float, *, looked: bool = False) -> None:
        """Record a failure and back off, longer each time; requests that fail together count as one failure."""
        self.cause = str(error)
        if not self.down or now >= self.due or looked:
            self.due = now + min(self.backoff * 2 ** min(self.failures, 30), self.longest)
            if not self.down:
                event(
                    LOG,
                    "server down",
                    f"server {self.address} is left alone: {error}",
                    {"server": self.address},
                )
            self.down, self.failures = True, self.failures + 1

    def record_success(self, now: float) -> None:
        """Record a good answer, the only thing that resets the count of failures."""
        self.failures, self.last_answer = 0, now

    async def responds_since(self, since: float) -> bool:
        """Return whether it has answered anything since then, or reports now that it is still the same process.

        Requests that were sent together are late together, so they share one probe.
        """
        async with self._checking:
            if self.last_answer > since or not self.up:  # another request may have probed meanwhile
                return self.last_answer > since
            try:
                after = await self.server.probe()
            except TurnwiseError:
                return self.last_answer > since
            same = self.capabilities is None or self.capabilities.started == after.started
            if same:
                self.last_answer = asyncio.get_running_loop().time()
            return same

    async def recheck(self, now: float, *, weights_changed: bool) -> bool:
        """Probe a replica that failed, and return whether it is back with the weights that it had.

        Args:
            now: time of the event loop, in seconds.
            weights_changed: whether its weights have changed since it started, so that a new process has lost them.
        """
        before = self.capabilities
        self.due = now + self.longest  # no other request probes it meanwhile
        try:
            after = await self.server.probe()
            if before is not None and (after.model, after.context_length) != (before.model, before.context_length):
                raise InfrastructureError(
                    f"server {self.address} came back with {after.model!r} and a context of {after.context_length}; it "
                    f"served {before.model!r} with {before.context_length}"
                )
        except TurnwiseError as error:  # a fault of one replica must not stop the others
            self.record_failure(error, now, looked=True)
            return False
        except asyncio.CancelledError:
            self.due = now
            raise
        same = before is not None and before.started is not None and before.started == after.started
        self.capabilities, self.down, self.joins_later = after, False, False
        kind = "server back" if same else "restart"
        text = f"server {self.address} answers again{'' if same else '; it was restarted, or may have been'}"
        event(LOG, kind, text, {"server": self.address})
        self.named = self.named and same  # the same process keeps its name, unless another trainer changed it
        if weights_changed and not same:
            self.stale, self.refused = True, False
            self.cause = (
                f"server {self.address} was restarted, or may have been, and has the weights it was started with; it "
                "takes part again after it has received the policy's"
            )
        return not self.stale

    def forget_refresh(self, task: asyncio.Task[None]) -> None:
        """Note the end of a refresh; a ``finally`` in a task that is canceled before it begins does not run."""
        if self.refreshing is task:
            self.refreshing = None

    def withdraw(self) -> None:
        """Cancel its requests in flight; they are sent again later."""
        for task in self.running:
            self.withdrawn.add(task)
            task.cancel()
