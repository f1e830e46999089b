"""Transfer from a sharded model to a policy in process 0, which samples from a full copy."""

from __future__ import annotations

import asyncio
from typing import Any

from ..learning.lora import of_policy
from ..learning.main_process import beside_loop, run_on_main
from ..learning.parallel import ProcessGroup, gather_on_main
from .canary import Canary, Probe
from .transfer import Updatable


class Gathered:
    """A transfer to a policy in process 0, which samples from a full copy of the sharded model.

    Args:
        policy: policy that samples from a model of its own in process 0; ``None`` in other processes.
        model: the learner's sharded model.
        world: the processes that learn together.
        probe: prompts and bounds of the canary.
    """

    def __init__(self, policy: Updatable | None, model: Any, world: ProcessGroup, probe: Probe) -> None:
        self.policy = policy
        self.model = model
        self.world = world
        self.canary = Canary(policy, model, probe, world)

    async def send(self, version: int) -> None:
        weights = await beside_loop(
            self.world, lambda: of_policy(self.model, gather_on_main(self.model.state_dict(), self.world))
        )

        async def arrive() -> None:
            assert self.policy is not None
            # In a thread, since it waits for the running pass; environments continue meanwhile.
            await asyncio.to_thread(self.policy.update, weights, version)

        await run_on_main(self.world, arrive)
        await self.canary.prove(version)
