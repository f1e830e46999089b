"""Shared part of all transports: call every replica at once, with a time limit, and leave out those that fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from ...errors import InfrastructureError, UsageError
from ...inference.policy import Sampling
from ...inference.serving.fan_out import fan_out
from ...inference.serving.retrying import generate_with_retries
from ...inference.serving.server import (
    Capabilities,
    FolderReceiver,
    Pause,
    Sampler,
    ServerResponse,
    pausable,
    sleeper,
)
from .transfer import Changeable

T = TypeVar("T")
WEIGHTS, CACHE = "weights", "kv_cache"
"""Parts of a server's memory, as vLLM names them."""


class Replicas:
    """Servers that should have the same weights.

    Args:
        policy: the policy that samples from them.
        mode: handling of running requests while weights change.
        timeout: seconds that a server has for one call; loading large weights takes long.
    """

    needs_control = True
    whole = True

    def __init__(self, policy: Changeable, *, mode: Pause = Pause.KEEP, timeout: float = 600.0) -> None:
        self.policy = policy
        self.mode = mode
        self.timeout = timeout
        self.can: dict[str, Capabilities] = {}
        """Capabilities that the servers reported at the start, by address."""
        self._ready: tuple[Sampler, ...] = ()
        self._asleep: tuple[Sampler, ...] = ()

    @property
    def ready(self) -> tuple[Sampler, ...]:
        """See ``Transport``."""
        return self._ready

    @property
    def adapter(self) -> str | None:
        """See ``Transport``."""
        return None

    @property
    def context_length(self) -> int:
        """See ``Transport``."""
        return min(can.context_length for can in self.can.values())

    async def each(self, what: str, servers: Iterable[Sampler], call: Callable[[Sampler], Awaitable[T]]) -> list[T]:
        """Call several servers at once, and wait for all of them even if one fails.

        Args:
            what: verb phrase for messages: "did not …".
            servers: servers to call.
            call: coroutine function for one server.

        Raises:
            InfrastructureError: a server did not answer in time; otherwise the first error that a call raised.
        """
        answers, failures = await fan_out(servers, call, what=what, seconds=self.timeout)
        if failures:
            raise failures[0][1]
        return [answer for _, answer in answers]

    async def every(self, what: str, call: Callable[[Sampler], Awaitable[None]]) -> None:
        """Call all servers that are ready; those that are down or do not answer are no longer ready.

        Raises:
            InfrastructureError: no server is left.
            TurnwiseError: one refused, as the others would.
        """
        answers, failures = await fan_out(self._ready, call, what=what, seconds=self.timeout)
        if not answers:
            lost = [str(error) for _, error in failures]
            raise InfrastructureError("; ".join(lost or [f"nothing answers at {', '.join(self.can)}"]))
        self._ready = tuple(server for server, _ in answers)

    async def init(self) -> None:
        """Ask all servers for their capabilities; see ``Transport``."""
        servers = self.policy.live  # without those that join later, which ``open`` does not ask
        found = await self.policy.open(control=self.needs_control)
        self.can = {server.address: can for server, can in zip(servers, found, strict=True)}
        self._ready = servers

    async def sleep(self, level: int) -> None:
        """See ``Transport``."""
        awake = [address for address, can in self.can.items() if not can.sleeps]
        if awake:
            raise UsageError(
                f"server {awake[0]} was started without sleep mode, so sleeping would free nothing: start it with "
                "--enable-sleep-mode (scripts/serve: sleep=true; on GPUs only), or leave server.sleep out"
            )
        await self.policy.pause(Pause.WAIT)  # nothing is played now, and nothing may start
        self._ready = self.policy.live
        await self.every("fall asleep", lambda server: sleeper(server).sleep(level))
        self._asleep = self._ready

    async def wake(self, tags: Sequence[str] = (), *, restore: bool = False) -> None:
        """See ``Transport``."""
        asleep = [server for server in self._asleep if server in self.policy.live]  # one that was restarted is awake
        if not tags or CACHE in tags:
            self._asleep = ()
        woken, failures = await fan_out(
            asleep,
            lambda server: sleeper(server).wake(tags, restore=restore),
            what="wake up",
            seconds=self.timeout,
        )
        if failures and not woken:
            raise failures[0][1]
        lost = [server for server, _ in failures]
        self._ready = tuple(server for server in self._ready if server not in lost)

    async def pause(self) -> None:
        """See ``Transport``."""
        await self.policy.pause(self.mode)
        self._ready = self.policy.live

    async def send_ahead(self, folder: Path) -> None:
        """Send a folder to the servers that do not see it, while they sample; one that fails is sent it again later."""
        receivers = [server for server in self.policy.live if isinstance(server, FolderReceiver)]
        await fan_out(receivers, lambda server: server.receive(folder), what="take weights", seconds=self.timeout)

    async def forget(self) -> None:
        """Make all servers that are ready drop their prefix caches, which belong to old weights."""
        await self.every("reset its prefix cache", lambda server: pausable(server).reset_prefix_cache())

    async def resume(self) -> None:
        """See ``Transport``."""
        await self.policy.resume()

    async def probe(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, bare: bool = False
    ) -> Sequence[ServerResponse]:
        """See ``Transport``."""
        adapter = None if bare else self.adapter
        return await self.each(
            "answer the canary",
            self._ready,
            lambda server: generate_with_retries(server, prompt_ids, sampling, session="canary", adapter=adapter),
        )

    @property
    def keeps(self) -> bool:
        """See ``Transport``."""
        return False

    async def refresh(self, server: Sampler, version: int) -> None:
        """See ``Transport``."""
        if not self.keeps:
            raise UsageError(f"server {server.address} needs weights, and none are kept for it until the next transfer")

        async def give(server: Sampler) -> None:
            await pausable(server).pause(self.mode)
            try:
                await self.give(server, version)
                await pausable(server).reset_prefix_cache()
            finally:  # a server that stays paused answers no probe; with old weights it gets no requests
                await pausable(server).resume()

        await self.each("take the present weights", [server], give)

    async def give(self, server: Sampler, version: int) -> None:
        """Give one paused server the weights that are kept."""
        raise NotImplementedError

    async def close(self) -> None:
        """See ``Transport``."""
