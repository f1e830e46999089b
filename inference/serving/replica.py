"""One replica of a served policy: how much it carries, whether it is well, and which sessions are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import InfrastructureError, TurnwiseError
from ...tasks.rng import stable_hash
from .server import Capabilities, Sampler, ServerResponse


class WeightTag(NamedTuple):
    """What a request was sent under: the version of the weights, and the adapter in front of them."""

    version: int
    adapter: str | None


@dataclass(eq=False)
class Replica:
    """A server, and what the policy knows about it.

    Args:
        server: what is asked.
        limit: the most requests under way at once.
        backoff: seconds until a replica that failed once is looked at again; doubled with each failure.
        longest: and no more than these.
    """

    server: Sampler
    limit: int
    backoff: float
    longest: float

    def __post_init__(self) -> None:
        self.capabilities: Capabilities | None = None
        self.down = False
        self.failures = 0  # since its last good answer
        self.answered = float("-inf")  # when it last did, to anything
        self.due = 0.0
        self.cause = ""
        self.stale = False  # it came back with other weights than the policy's
        self.named = False  # it was told what its weights are called
        self.enter_loop()

    def enter_loop(self) -> None:
        """Forget what belonged to an earlier event loop."""
        self.room = asyncio.Semaphore(self.limit)
        self._checking = asyncio.Lock()
        self.running: dict[asyncio.Task[ServerResponse], WeightTag] = {}
        self.withdrawn: set[asyncio.Task[ServerResponse]] = set()

    @property
    def address(self) -> str:
        """The server's."""
        return self.server.address

    @property
    def up(self) -> bool:
        """Whether it is asked without a second look."""
        return not self.down and not self.stale

    def failed(self, error: Exception, now: float, *, looked: bool = False) -> None:
        """Leave it alone for a while, longer each time; requests that fail together are one failure."""
        self.cause = str(error)
        if not self.down or now >= self.due or looked:
            self.due = now + min(self.backoff * 2 ** min(self.failures, 30), self.longest)
            self.down, self.failures = True, self.failures + 1

    def succeeded(self, now: float) -> None:
        """It gave a good answer: only this makes good for its failures."""
        self.failures, self.answered = 0, now

    async def works(self, since: float) -> bool:
        """Whether it has answered anything since then, or says now that it is the process that it was.

        Requests that were sent together are late together: one look serves all.
        """
        async with self._checking:
            if self.answered > since or not self.up:
                return self.answered > since
            try:
                after = await self.server.probe()
            except TurnwiseError:
                return self.answered > since
            same = self.capabilities is None or self.capabilities.started == after.started
            if same:
                self.answered = asyncio.get_running_loop().time()
            return same

    async def recheck(self, now: float, *, moved: bool) -> bool:
        """See whether a replica that failed is back, with the weights that it had.

        Args:
            now: the time.
            moved: its weights are not those that it was started with: a process that is new has lost them.
        """
        before = self.capabilities
        self.due = now + self.longest  # nobody else looks meanwhile
        try:
            after = await self.server.probe()
            if before is not None and (after.model, after.context_length) != (before.model, before.context_length):
                raise InfrastructureError(
                    f"server {self.address} came back with {after.model!r} and a context of {after.context_length}; it "
                    f"served {before.model!r} with {before.context_length}"
                )
        except TurnwiseError as error:  # whatever is wrong with one, the others may go on
            self.failed(error, now, looked=True)
            return False
        except asyncio.CancelledError:
            self.due = now
            raise
        same = before is not None and before.started is not None and before.started == after.started
        self.capabilities, self.down = after, False
        self.named = self.named and same  # a process that goes on keeps the name, or somebody else has changed it
        if moved and not same:
            self.stale = True
            self.cause = (
                f"server {self.address} was restarted, or may have been, and has the weights it was started with; it "
                "takes part again when it is sent the policy's"
            )
        return not self.stale

    def withdraw(self) -> None:
        """Take back what is under way: it is asked again later."""
        for task in self.running:
            self.withdrawn.add(task)
            task.cancel()


def preferred(replicas: Iterable[Replica], session: str) -> list[Replica]:
    """Replicas in the order in which a session asks for them: the same in every process, whoever else is there.

    Rendezvous hashing (Thaler and Ravishankar, 1998): when a replica goes, only its own sessions move. Requests
    without a session go where the least is under way.
    """
    if not session:
        return sorted(replicas, key=lambda replica: len(replica.running))
    return sorted(replicas, key=lambda replica: stable_hash(session, replica.address), reverse=True)
