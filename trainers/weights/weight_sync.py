"""Transfer from the learner to servers: one sync from export to canary, with its metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from torch import Tensor

from ...errors import ContractError, TurnwiseError
from ...inference.serving.server import ServerResponse
from ...logs import event
from ..learning.lora import adapted, merged
from ..learning.main_process import run_on_main
from ..learning.parallel import ALONE, ProcessGroup, unsharded
from .canary_prompts import Kind, Question, Questions, answered
from .diagnosis import Answers, diagnose, moved
from .transfer import Changeable, Transport

LOG = logging.getLogger(__name__)
GO_ON = "Servers that are there go on with what they had"
STAY = (
    "Servers that are there stay paused, since nobody knows which weights they have, until a run sends them whole ones"
)
T = TypeVar("T")
Heard = Sequence[Sequence[tuple[Question, ServerResponse]]]
"""Questions and answers, by replica."""


class WeightSync:
    """Brings the learner's weights to servers, and makes every replica prove after every sync that it has them.

    Args:
        policy: the policy that samples from the servers; it gets the version while they are paused. ``None`` in
            processes other than the main one.
        transport: transport of the weights; ``None`` in processes other than the main one.
        model: model of the learner, sharded if several processes learn.
        questions: questions of the canary.
        world: the processes that learn together; the main one sends.
    """

    def __init__(
        self,
        policy: Changeable | None,
        transport: Transport | None,
        model: Any,
        questions: Questions,
        *,
        world: ProcessGroup = ALONE,
    ) -> None:
        self.policy = policy
        self.transport = transport
        self.model = model
        self.questions = questions
        self.world = world
        self.metrics: dict[str, float] = {}
        """Numbers of the last sync: seconds of export, pause and canary, replicas, and the canary's largest gap."""
        self._last: dict[str, Answers] = {}
        self._open = False
        self._count = 0

    async def send(self, version: int) -> None:
        """Make the servers sample from the learner's present weights, as ``version``.

        An interruption waits until the servers have complete weights and sample again. If an update fails midway, the
        weights of a server are unknown. It stays paused, so that no token is sampled from it, until the next ``send``
        that reaches it, also that of a resumed run.

        Raises:
            ContractError: the canary found that the weights did not arrive; the message says why and what to do.
            UsageError: the servers cannot do this.
            ModelError: the weights could not be written.
            InfrastructureError: a server is down.
        """
        # All processes have to gather together; a single one has the full weights already.
        weights: Mapping[str, Tensor] = unsharded(dict(self.model.state_dict()))
        before, after = await run_on_main(self.world, lambda: _to_its_end(self._sync(weights, version)))
        were, are = self._scored(before), self._scored(after)

        async def judge() -> None:
            self._judge(version, were, are)

        await run_on_main(self.world, judge)

    async def close(self) -> None:
        """Remove leftovers in folders and on servers."""
        if self.transport is not None and self._open:
            await self.transport.close()

    def _scored(self, heard: Heard) -> list[Answers]:
        scorer = self.questions.scorer
        return [{asked.kind: answered(self.model, asked, served, scorer) for asked, served in said} for said in heard]

    async def _sync(self, weights: Mapping[str, Tensor], version: int) -> tuple[Heard, Heard]:
        """Send the weights; return the answers before the first transfer (later none), and those after this one."""
        transport, policy = self.transport, self.policy
        assert transport is not None
        assert policy is not None
        before: Heard = []
        if not self._open:
            await transport.init()
            self._open = True
            self.questions = self.questions.within(transport.context_length)
            before = await self._ask(transport)  # also fills caches before any weights change
        if transport.whole and adapted(self.model):
            weights = merged(self.model, weights)
        began = time.perf_counter()
        await transport.stage(weights, version)
        staged = time.perf_counter()
        await self._replace(transport, policy, weights, version)
        going = time.perf_counter()
        after = await self._ask(transport)
        self.metrics = {
            "sync/export_seconds": staged - began,
            "sync/paused_seconds": going - staged,
            "sync/canary_seconds": time.perf_counter() - going,
            "sync/replicas": float(len(transport.ready)),
        }
        known: dict[str, Any] = {"version": version, "servers": [server.address for server in transport.ready]}
        known |= {name.removeprefix("sync/"): value for name, value in self.metrics.items()}
        event(LOG, "sync", f"sent weights of version {version} in {going - began:.2f} s", known)
        return before, after

    async def _replace(
        self, transport: Transport, policy: Changeable, weights: Mapping[str, Tensor], version: int
    ) -> None:
        """Replace the servers' weights by the staged ones; if that fails, the error says which ones they have."""
        left = GO_ON
        try:
            await transport.pause()
            left = STAY if transport.whole else GO_ON
            await transport.send(weights, version)
            await policy.begin_version(version, adapter=transport.adapter, on=transport.ready)
        except TurnwiseError as error:
            if left is GO_ON:
                await transport.resume()
            raise type(error)(f"{error}. {left}; continue the run with --resume") from error
        await transport.resume()

    async def _ask(self, transport: Transport) -> Heard:
        """Ask all replicas all questions at once."""
        self._count += 1
        asked = self.questions.asked(self._count, adapter=transport.adapter is not None)
        said = await asyncio.gather(
            *(transport.probe(each.prompt_ids, each.sampling, bare=each.kind is Kind.BARE) for each in asked)
        )
        return [
            [(question, answers[replica]) for question, answers in zip(asked, said, strict=True)]
            for replica in range(len(transport.ready))
        ]

    def _judge(self, version: int, before: Sequence[Answers], after: Sequence[Answers]) -> None:
        """Compare every replica with the trainer's model.

        Raises:
            ContractError: a replica does not serve the weights of this version.
        """
        assert self.transport is not None
        tolerance = self.questions.tolerance
        addresses = [server.address for server in self.transport.ready]
        if len(before) == len(addresses):  # unless one was lost in between
            self._last = dict(zip(addresses, before, strict=True))
        for address, now in zip(addresses, after, strict=True):
            last = self._last.get(address)
            found = diagnose(now, last, version=version, tolerance=tolerance)
            if found is not None:
                raise ContractError(f"weights of version {version} are not what {address} serves: {found}")
            # Steps too small to tell from noise add up: compare the next one with the same earlier answers.
            if last is None or moved(now, last, tolerance):
                self._last[address] = now
        gaps = [answer.gap for now in after for kind, answer in now.items() if kind is not Kind.BARE]
        self.metrics["sync/canary_gap_max"] = max(gaps, default=0.0)


async def _to_its_end(sync: Coroutine[Any, Any, T]) -> T:
    """Await a sync to its end, since an interruption within it would leave servers paused."""
    task = asyncio.ensure_future(sync)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # the interruption is raised instead
        raise
