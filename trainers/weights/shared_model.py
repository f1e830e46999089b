"""Transfer to a policy in this process: one model for both sides, or a copy for the policy."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from .canary import Canary, Probe
from .transfer import Updatable


class InProcess:
    """Learner and policy share one model, so a transfer is a new version number, and the canary's proof of it.

    Args:
        policy: policy that samples from ``model``.
        model: model of the learner.
        probe: prompts and bounds of the canary.
    """

    def __init__(self, policy: Updatable, model: Any, probe: Probe) -> None:
        self.policy = policy
        self.canary = Canary(policy, model, probe)

    async def send(self, version: int) -> None:
        self.policy.update(None, version)
        await self.canary.prove(version)


class Copied:
    """The policy samples from a model of its own, so that it can continue while the learner's changes.

    This costs the memory of the weights a second time, without optimizer state or gradients: 2 bytes per parameter in
    bfloat16. A transfer copies the weights between two forward passes. Running requests keep their tokens and their
    cache, and continue with the new weights. So one action may span versions, and each of its tokens has its version
    and the log-probability under it. (AReaL, arXiv 2505.24298, reads the prefix again under the new weights; here the
    cache of the old ones stays, as with vLLM's ``pause?mode=keep``.)

    Args:
        policy: policy that samples from a copy of ``model``.
        model: model of the learner; it must not change during a transfer.
        probe: prompts and bounds of the canary.
    """

    def __init__(self, policy: Updatable, model: Any, probe: Probe) -> None:
        self.policy = policy
        self.model = model
        self.canary = Canary(policy, model, probe)

    async def send(self, version: int) -> None:
        # In a thread, since it waits for the running pass; environments continue meanwhile.
        await asyncio.to_thread(self.policy.update, self.model.state_dict(), version)
        await self.canary.prove(version)


def own_copy(model: Any) -> Any:
    """Copy a model to sample from: the same weights in memory of their own, none of them trainable."""
    return copy.deepcopy(model).requires_grad_(False).eval()
