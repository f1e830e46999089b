"""The seam from the learner's weights to whatever samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ...agents.policy import Policy


class WeightTransfer(Protocol):
    """Brings the learner's weights to whatever samples. A server's transfer (files, NCCL) goes behind the same verb."""

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
