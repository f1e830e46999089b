"""Transfer from the learner to servers: one sync from export to canary, with its metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...errors import ContractError, TurnwiseError
from ...inference.serving.server import ServerResponse
from ...logs import event, tell
from ..learning.lora import adapted, merged
from ..learning.main_process import beside_loop, run_on_main
from ..learning.parallel import ALONE, ProcessGroup, gather_on_main
from .canary_prompts import Kind, Question, Questions, answered
from .diagnosis import Answers, Cause, Diagnosis, diagnose, moved, suspicious
from .noise import Gap, Noise
from .refresh import Refresh
from .replicas import CACHE, WEIGHTS
from .served_names import served_names
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
        sleep: level of the servers' sleep during ``rest``; 0 leaves them awake.
        refresh: whether servers that restart between two syncs receive the weights of the last one, if the transport
            keeps them; otherwise they wait for the next sync.
    """

    def __init__(
        self,
        policy: Changeable | None,
        transport: Transport | None,
        model: Any,
        questions: Questions,
        *,
        world: ProcessGroup = ALONE,
        sleep: int = 0,
        refresh: bool = False,
    ) -> None:
        self.policy = policy
        self.transport = transport
        self.model = model
        self.questions = questions
        self.world = world
        self.level = sleep
        self.refresh = refresh
        self.noise = Noise(questions.bounds)
        self.metrics: dict[str, float] = {}
        """Numbers of the last sync: seconds of export, pause and canary, replicas, and what the canary found."""
        self._first: Sequence[Answers] = ()
        self._last: dict[str, Answers] = {}
        self._warned: dict[str, Cause] = {}
        self._open = self._asleep = False
        self._count = 0

    async def send(self, version: int) -> None:
        """Make the servers sample from the learner's present weights, as ``version``.

        An interruption waits until the servers have complete weights and sample again. If an update fails midway, the
        weights of a server are unknown. It stays paused, so that no token is sampled from it, until the next ``send``
        that reaches it, also that of a resumed run.

        The canary asks all replicas, and once more if an answer is beyond the noise of the first sync. A gap that stays
        is a warning with its cause. Only weights that did not arrive stop the run.

        Raises:
            ContractError: the canary found that the weights did not arrive; the message says why and what to do.
            UsageError: the servers cannot do this.
            ModelError: the weights could not be written.
            InfrastructureError: a server is down.
        """
        # All processes have to gather together; a single one has the full weights already.
        weights: Mapping[str, Tensor] = await beside_loop(
            self.world, lambda: gather_on_main(self.model.state_dict(), self.world)
        )
        before, after = await run_on_main(self.world, lambda: _to_its_end(self._sync(weights, version)))
        were, are = self._scored(before), self._scored(after)
        again = self._scored(await run_on_main(self.world, lambda: self._ask_again(are)))

        async def judge() -> None:
            self._first = were[:1] or self._first
            former = (*self._first, *self._last.values())
            self._judge(version, were, are, again)
            if self.refresh and self.policy is not None and self.transport is not None and self.transport.keeps:
                await self.policy.refresh_with(Refresh(self.transport, version, are, self.noise, former))

        await run_on_main(self.world, judge)

    async def rest(self) -> None:
        """Make the servers free their GPUs until the next ``send``, if they are to sleep; only in the main process.

        Raises:
            UsageError: one was not started so that it can.
            InfrastructureError: none did.
        """
        if not self.level or self.transport is None:
            return
        began = time.perf_counter()
        self._asleep = True
        if self.policy is not None:
            await self.policy.refresh_with(None)
        await _to_its_end(self.transport.sleep(self.level))
        self.metrics["sync/sleep_seconds"] = time.perf_counter() - began

    async def close(self) -> None:
        """Remove leftovers in folders and on servers, and wake them; after level 2 they have their first weights."""
        if self.transport is not None and self._open:
            if self._asleep:
                with suppress(TurnwiseError):
                    free_cached_memory()
                    await self.transport.wake(restore=self.level > 1)
                    await self.transport.resume()
            await self.transport.close()

    def _scored(self, heard: Heard) -> list[Answers]:
        found = iter(answered(self.model, [one for said in heard for one in said], self.questions.scorer))
        return [{asked.kind: next(found) for asked, _ in said} for said in heard]

    async def _sync(self, weights: Mapping[str, Tensor], version: int) -> tuple[Heard, Heard]:
        """Send the weights; return the answers before the first transfer (later none), and those after this one."""
        transport, policy = self.transport, self.policy
        assert transport is not None
        assert policy is not None
        before: Heard = []
        await policy.refresh_with(None)
        if not self._open:
            await transport.init()
            self._open = True
            self.questions = self.questions.within(transport.context_length)
            before = await self._ask(transport)  # also fills caches before any weights change
        if transport.whole and adapted(self.model):
            weights = merged(self.model, weights)
        if transport.whole:
            weights = served_names(self.model, weights)
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
        left, slept = GO_ON, self._asleep
        try:
            if slept:  # weights first: the cache's memory may be needed for the transfer
                left = STAY
                free_cached_memory()
                await transport.wake([WEIGHTS])
            await transport.pause()
            left = STAY if transport.whole or slept else GO_ON
            await transport.send(weights, version)
            if slept:
                await transport.wake([CACHE])
                self._asleep = False
            await policy.begin_version(version, adapter=transport.adapter, on=transport.ready)
        except TurnwiseError as error:
            if left is GO_ON:
                await transport.resume()
            raise type(error)(f"{error}. {left}; continue the run with --resume") from error
        await transport.resume()
        if slept:
            await policy.resume()  # some transports pause nothing themselves

    async def _ask_again(self, are: Sequence[Answers]) -> Heard:
        """Ask other questions if there is doubt about an answer, or to measure the noise at the first sync."""
        assert self.transport is not None
        if self.noise.measured is not None and not any(suspicious(now, self.noise) for now in are):
            return []
        began = time.perf_counter()
        heard = await self._ask(self.transport, again=True)
        self.metrics["sync/canary_seconds"] += time.perf_counter() - began
        return heard

    async def _ask(self, transport: Transport, *, again: bool = False) -> Heard:
        """Ask all replicas all questions at once."""
        self._count += 1
        asked = self.questions.asked(self._count, adapter=transport.adapter is not None, again=again)
        said = await asyncio.gather(
            *(transport.probe(each.prompt_ids, each.sampling, bare=each.kind is Kind.BARE) for each in asked)
        )
        return [
            [(question, answers[replica]) for question, answers in zip(asked, said, strict=True)]
            for replica in range(len(transport.ready))
        ]

    def _judge(
        self, version: int, before: Sequence[Answers], after: Sequence[Answers], again: Sequence[Answers]
    ) -> None:
        """Compare every replica with the trainer's model.

        Raises:
            ContractError: a replica does not serve the weights of this version.
        """
        assert self.transport is not None
        noise, doubted = self.noise, self.noise.measured is not None and bool(again)
        addresses = [server.address for server in self.transport.ready]
        if len(before) == len(addresses):  # unless one was lost in between
            self._last = dict(zip(addresses, before, strict=True))
        others = again if len(again) == len(addresses) else [{}] * len(addresses)
        limit, causes = noise.limit, []
        for address, now, other in zip(addresses, after, others, strict=True):
            last = self._last.get(address)
            found = diagnose(now, other, last, version=version, noise=noise)
            if found is not None and found.stops:
                raise ContractError(f"weights of version {version} are not what {address} serves: {found}")
            self._warn(version, address, found)
            causes += [found.cause] if found is not None else []
            # Steps too small to tell from noise add up: compare the next one with the same earlier answers.
            if last is None or moved(now, last, noise):
                self._last[address] = now
        if noise.measured is None and not set(causes) - {Cause.NUMERICS}:
            noise.calibrate(_differences([*after, *again]))
        gap = Gap.of(_differences(after))
        self.metrics |= {
            "sync/canary_gap_max": max(map(abs, _differences(after)), default=0.0),
            "canary/gap_mean": gap.mean,
            "canary/gap_p99": gap.p99,
            "canary/limit_mean": limit.mean,
            "canary/limit_p99": limit.p99,
            "canary/asked_again": float(doubted),
            "canary/warnings": float(len(causes)),
        }

    def _warn(self, version: int, address: str, found: Diagnosis | None) -> None:
        """Report a cause once, until it changes."""
        before = self._warned.pop(address, None)
        if found is None:
            return
        self._warned[address] = found.cause
        if before is not found.cause:
            text = f"canary: log-probabilities of version {version} differ at {address}, and the run goes on: {found}"
            tell(LOG, "canary", text, {"version": version, "server": address, "cause": found.cause.value})


def _differences(answers: Sequence[Answers]) -> list[float]:
    found = [answer for now in answers for kind, answer in now.items() if kind is not Kind.BARE]
    return [each for answer in found for each in answer.differences]


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


def free_cached_memory() -> None:
    """Return memory that torch keeps for later to the GPU, so that a server can take it; does nothing on a CPU."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
