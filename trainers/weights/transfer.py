"""The interfaces from the learner's weights to the sampling side: a policy in this process, or servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from ...inference.policy import Policy, Sampling
from ...inference.serving.server import Capabilities, Pause, Sampler, ServerResponse


class WeightTransfer(Protocol):
    """Brings the learner's weights to the policy, and proves that they arrived."""

    async def send(self, version: int) -> None:
        """Make the policy sample from the learner's present weights, as ``version``.

        Raises:
            ContractError: the canary found that they did not arrive.
        """
        ...


class Updatable(Policy, Protocol):
    """A policy that takes new weights, and stamps every token with the version that sampled it."""

    def update(self, state_dict: Mapping[str, Any] | None, version: int) -> None:
        """Sample from these weights from now on; ``None`` when the trainer changed the policy's own model in place."""
        ...


class Changeable(Protocol):
    """A policy over servers, as far as a change of weights needs it: ``RemotePolicy``."""

    @property
    def live(self) -> tuple[Sampler, ...]:
        """The replicas that are not known to be down; one that was restarted counts."""
        ...

    async def open(self, *, control: bool = False) -> tuple[Capabilities, ...]:
        """Ask every replica for its capabilities; with ``control``, they must support pausing."""
        ...

    async def pause(self, mode: Pause) -> None:
        """Stop sampling everywhere."""
        ...

    async def refresh_health(self) -> tuple[Sampler, ...]:
        """Return the replicas that can receive weights."""
        ...

    async def begin_version(
        self, version: int, *, adapter: str | None = None, on: Collection[Sampler] | None = None
    ) -> None:
        """Label the tokens of these servers with this version from now on."""
        ...

    async def refresh_with(self, refresh: Callable[[Sampler], Awaitable[None]] | None) -> None:
        """Bring servers that restarted up to date with this function from now on, or stop doing so."""
        ...

    async def resume(self) -> None:
        """Continue sampling."""
        ...

    async def drain(self) -> None:
        """Wait until no request of an earlier version is running."""
        ...


class Transport(Protocol):
    """One way of bringing weights to servers, to all replicas at once.

    Call ``init`` once, then for every version ``stage`` (while they serve), ``pause``, ``send`` and ``resume``. A
    replica that is down, or fails meanwhile, is left out until a later version has reached it.
    """

    @property
    def whole(self) -> bool:
        """Whether it sends weights that servers use as they are; otherwise adapters, separate from their base."""
        ...

    @property
    def needs_control(self) -> bool:
        """Whether it has to pause the servers."""
        ...

    @property
    def ready(self) -> tuple[Sampler, ...]:
        """The replicas that have the version sent last; before that, all that are up."""
        ...

    @property
    def adapter(self) -> str | None:
        """The adapter that requests have to name to get that version; ``None`` without one."""
        ...

    @property
    def context_length(self) -> int:
        """The most tokens of prompt and action together, once known."""
        ...

    async def init(self) -> None:
        """Check that the servers support this transport, and set it up.

        Raises:
            UsageError: they do not; the message says how to start them, or what to use instead.
            InfrastructureError: one cannot be reached.
        """
        ...

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Prepare an update while the servers keep sampling, such as writing files.

        Args:
            weights: weights of the learner's model, by name; adapters are merged if ``whole``.
            version: version of the weights.

        Raises:
            ModelError: they cannot be written, e.g. because the disk is full.
        """
        ...

    async def sleep(self, level: int) -> None:
        """Make all replicas free their GPU's memory until ``wake``; see ``Sleeper``.

        Raises:
            UsageError: one cannot.
            InfrastructureError: none did.
        """
        ...

    async def wake(self, tags: Sequence[str] = (), *, restore: bool = False) -> None:
        """Wake the replicas that ``sleep`` made sleep, if any: see ``Sleeper``."""
        ...

    async def pause(self) -> None:
        """Stop all replicas between two tokens."""
        ...

    async def send(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Give every replica the staged weights, and make it forget all cached keys and values.

        Raises:
            InfrastructureError: no replica took it.
        """
        ...

    async def resume(self) -> None:
        """Resume sampling, and remove leftovers of earlier versions."""
        ...

    async def probe(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, bare: bool = False
    ) -> Sequence[ServerResponse]:
        """Return the answer of each replica that is ready, requested as episodes do.

        Args:
            prompt_ids: token ids of the prompt.
            sampling: sampling settings.
            bare: whether to ask the model without its adapter.
        """
        ...

    @property
    def keeps(self) -> bool:
        """Whether it keeps the weights that it sent last, for servers that restart."""
        ...

    async def refresh(self, server: Sampler, version: int) -> None:
        """Give one server, which gets no requests, the weights that were sent last.

        Args:
            server: server that has other weights.
            version: version of the weights that were sent last.

        Raises:
            UsageError: this transport keeps none, or the server cannot take them.
            InfrastructureError: the server is down.
        """
        ...

    async def close(self) -> None:
        """Remove leftovers in folders and on servers; the servers keep running."""
        ...
