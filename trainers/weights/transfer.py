"""The seams from the learner's weights to whatever samples: a policy in this process, or servers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from ...inference.policy import Policy, Sampling
from ...inference.serving.server import Capabilities, Pause, Served, Server


class WeightTransfer(Protocol):
    """Brings the learner's weights to whatever samples, and proves that they arrived."""

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
    """A policy over servers, as far as changing their weights concerns it: ``ServedPolicy``."""

    @property
    def live(self) -> tuple[Server, ...]:
        """The replicas that are not known to be down; one that was restarted counts."""
        ...

    async def open(self, *, control: bool = False) -> tuple[Capabilities, ...]:
        """Ask every replica what it can do; with ``control``, they must be able to be paused."""
        ...

    async def pause(self, mode: Pause) -> None:
        """Stop sampling everywhere."""
        ...

    async def roll_call(self) -> tuple[Server, ...]:
        """The replicas that are there to be sent weights."""
        ...

    async def begin_version(
        self, version: int, *, adapter: str | None = None, on: Collection[Server] | None = None
    ) -> None:
        """From now on tokens are of this version, on these servers."""
        ...

    async def resume(self) -> None:
        """Go on sampling."""
        ...

    async def settle(self) -> None:
        """Return when no request of an earlier version is under way."""
        ...


class Transport(Protocol):
    """One way of bringing weights to servers, to all replicas at once.

    ``init`` once, then for every version ``stage`` (while they serve), ``pause``, ``send``, ``resume``. A replica that
    is down, or goes down meanwhile, is left out, and takes no part until a later version has reached it.
    """

    @property
    def whole(self) -> bool:
        """Whether it sends weights that servers use as they are; otherwise adapters, apart from what they change."""
        ...

    @property
    def needs_control(self) -> bool:
        """Whether the servers have to be paused for it."""
        ...

    @property
    def ready(self) -> tuple[Server, ...]:
        """The replicas that have the version that was sent last; before that, all that are there."""
        ...

    @property
    def adapter(self) -> str | None:
        """The adapter that requests have to name to get that version; ``None`` without one."""
        ...

    @property
    def context_length(self) -> int:
        """The most tokens of prompt and action together, once it is known."""
        ...

    async def init(self) -> None:
        """Find out whether the servers can do this, and agree on how.

        Raises:
            UsageError: they cannot; says how to start them, or what to use instead.
            InfrastructureError: one cannot be reached.
        """
        ...

    async def stage(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Whatever can be done while the servers go on, such as writing files.

        Args:
            weights: of the learner's model, by name; adapters are merged where ``whole``.
            version: what they are called.

        Raises:
            ModelError: they cannot be written, e.g. since the disk is full.
        """
        ...

    async def pause(self) -> None:
        """Stop all replicas between two tokens."""
        ...

    async def send(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Give every replica what was staged, and have them forget all cached keys and values.

        Raises:
            InfrastructureError: no replica took it.
        """
        ...

    async def resume(self) -> None:
        """Let them go on; what earlier versions left behind is removed."""
        ...

    async def probe(self, prompt_ids: Sequence[int], sampling: Sampling, *, bare: bool = False) -> Sequence[Served]:
        """The answer of each that is ready, asked as episodes ask.

        Args:
            prompt_ids: what is asked.
            sampling: how.
            bare: ask the model without its adapter.
        """
        ...

    async def close(self) -> None:
        """Remove what is left in folders and on servers; these go on."""
        ...
