"""``RemotePolicy``: a policy on one or many servers, whose weights may change while it samples."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from ...errors import ContractError, PolicyServerError, TurnwiseError, UsageError
from ...tasks.rng import stable_hash
from ..policy import Completion, Finish, Sampling
from .answers import too_long
from .completion_request import CompletionRequest
from .limits import TimeLimits
from .replica import WeightTag
from .replica_set import ReplicaSet
from .server import Capabilities, Pause, Sampler, ServerResponse, pausable

MOST_PARTS = 64
"""A completion is in no more parts than this: weights do not change that often under one."""
GRACE = 2.0
"""Seconds for what a pause aborted to come back; what has not by then is asked again from its beginning."""


class RemotePolicy:
    """Samples from replicas of one model.

    A session keeps to one replica, whose prefix cache then has its history; each replica carries so many requests at
    once, and more wait for it. Sampling has no side effects, so a request whose replica failed is asked again, with
    the same seed, of another one; only when none has answered for a while does it fail, as ``InfrastructureError``.
    Nothing else is ever asked twice. A cancelled call aborts its request on the server.

    Weights change between ``pause`` and ``resume``::

        await policy.pause(Pause.ABORT)
        ...                            # each server of policy.live takes the new weights, and forgets its cache
        await policy.begin_version(7)
        await policy.resume()

    and every token is stamped with the version that sampled it: by the server's own account where it gives one, else
    by this ledger, which no request straddles unseen. What ``Pause.ABORT`` cut off is continued from its last token,
    so that one action may span versions. An adapter is changed without a pause: ``begin_version(7, adapter="v7")``
    holds for requests from then on, and ``drain`` waits for the earlier ones.

    Args:
        servers: the replicas.
        max_in_flight: the most requests under way at each of them.
        patience: seconds for which a request waits for a replica that takes it, but for pauses and for room.
        request_timeout: seconds for one completion, but for pauses; one that takes longer at a server that works is
            the policy's own failure.
        backoff: seconds until a replica that failed is looked at again; doubled each time, to 5 at most.
        version: of the weights that are served at first.
        seed: of the policy's own generator, which seeds the requests that bring no seed.

    Raises:
        UsageError: no servers, two of one address, or limits that make no sense.
    """

    def __init__(
        self,
        servers: Sequence[Sampler],
        *,
        max_in_flight: int = 256,
        patience: float = 60.0,
        request_timeout: float = 210.0,
        backoff: float = 0.2,
        version: int = 0,
        seed: int = 0,
    ) -> None:
        self.limits = TimeLimits(request_timeout, patience)
        self._replicas = ReplicaSet(
            servers, max_in_flight=max_in_flight, limits=self.limits, backoff=backoff, version=version
        )
        self._seeds = random.Random(seed)
        self._context_length = 0

    @property
    def version(self) -> int:
        """Of the weights that sample from now on."""
        return self._replicas.now.version

    @property
    def adapter(self) -> str | None:
        """The name of the adapter that samples, if one does."""
        return self._replicas.now.adapter

    @property
    def silence(self) -> float:
        """The longest that a completion is waited for, in seconds, but for pauses and for room at a replica."""
        return self.limits.silence

    @property
    def context_length(self) -> int:
        """The most tokens of prompt and action together; known once it is open."""
        return self._context_length

    @property
    def servers(self) -> tuple[Sampler, ...]:
        """All replicas."""
        return tuple(replica.server for replica in self._replicas.members)

    @property
    def live(self) -> tuple[Sampler, ...]:
        """The replicas that are not known to be down. One that came back with old weights counts: send it the new."""
        return self._replicas.live

    async def open(self, *, control: bool = False) -> tuple[Capabilities, ...]:
        """Ask every replica what it can do; all must be there, and be alike.

        Args:
            control: weights are going to be changed. Replicas that an earlier run left paused go on, and are told
                what their weights are called.

        Raises:
            UsageError: a replica cannot be used, does not match the others, or cannot be controlled.
            InfrastructureError: one cannot be reached.
        """
        replicas = self._replicas
        replicas.enter_loop()
        found = await replicas.probe(control=control)
        self._context_length, replicas.control = found[0].context_length, replicas.control or control
        if control:
            await replicas.name(replicas.members)
        return tuple(found)

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        """Sample one continuation of ``prompt_ids``; see ``Policy``.

        Raises:
            PromptTooLongError: no room is left for a single token.
            ContractError: the prompt is none.
            PolicyTimeoutError: it takes longer than ``request_timeout``, at a server that works.
            InfrastructureError: no replica gave a good answer in time.
            UsageError: a server's own settings cut answers short.
        """
        asked = time.perf_counter()
        self._replicas.enter_loop()
        async with self._replicas.opening:
            if not self._context_length:
                await self.open()
        prompt = tuple(prompt_ids)
        room = self._context_length - len(prompt)
        if room < 1:
            raise too_long(len(prompt), self._context_length)
        limit = min(sampling.max_tokens, room)
        seed = self._seeds.getrandbits(56) if sampling.seed is None else sampling.seed
        ids: tuple[int, ...] = ()
        logprobs: tuple[float, ...] = ()
        versions: tuple[int, ...] = ()
        finish = Finish.ABORT
        parts, asking = 0, CompletionRequest(self._replicas, session)
        while finish is Finish.ABORT and len(ids) < limit:
            if (parts := parts + 1) > MOST_PARTS:
                raise PolicyServerError(f"a server of the policy aborted one completion {MOST_PARTS} times")
            part = replace(sampling, max_tokens=limit - len(ids), seed=_continued(seed, ids))
            served, stamp = await asking.ask((*prompt, *ids), part)
            ids += served.completion.token_ids
            logprobs += served.completion.logprobs
            versions += _versions(served, stamp)
            finish = served.completion.finish
        if finish is Finish.ABORT:
            finish = Finish.LENGTH
        return Completion(ids, logprobs, versions, finish, time.perf_counter() - asked)

    # -- weights ------------------------------------------------------------------------------------------------

    async def pause(self, mode: Pause) -> None:
        """Stop sampling everywhere, so that weights can change; returns once it has stopped.

        Args:
            mode: what happens to requests that are under way.

        Raises:
            UsageError: a replica cannot be paused, or would not say under ``Pause.KEEP`` which weights sampled what.
            InfrastructureError: none is there.
        """
        replicas = self._replicas
        await self.refresh_health()
        untold = [r.address for r in replicas.members if r.capabilities and not r.capabilities.version_spans]
        if mode is Pause.KEEP and untold:
            raise UsageError(
                f"pausing with 'keep' freezes requests and continues them with the new weights, but {untold[0]} does "
                "not report which weights sampled which token (vLLM does since 0.32, with --enable-scale-out). Use "
                "'abort' or 'wait', which are exact with every version"
            )
        replicas.hold(frozen=mode is not Pause.WAIT)  # which waits for what is under way
        try:
            if mode is Pause.WAIT:  # before the servers: paused, they would keep back what they have not begun
                await replicas.finished(lambda stamp: True)
            await replicas.each(lambda server: pausable(server).pause(mode))
        except BaseException:
            replicas.release()
            with contextlib.suppress(TurnwiseError):  # what is said is why it could not be paused
                await replicas.each(lambda server: pausable(server).resume())
            raise
        if mode is Pause.ABORT:
            await replicas.requeue_in_flight(GRACE)

    async def refresh_health(self) -> tuple[Sampler, ...]:
        """The replicas that are there to be sent weights; those that were down are looked at again.

        Raises:
            InfrastructureError: none is there.
        """
        self._replicas.enter_loop()
        return await self._replicas.refresh_health()

    async def begin_version(
        self, version: int, *, adapter: str | None = None, on: Collection[Sampler] | None = None
    ) -> None:
        """From now on tokens are of these weights.

        Args:
            version: their number.
            adapter: the name of the adapter that they are, loaded already; ``None`` for weights of the base model.
            on: the servers that have them, by default all that are live; the others take no part until they do.

        Raises:
            ContractError: requests are under way, and the weights below them changed without a pause.
        """
        replicas = self._replicas
        replicas.enter_loop()
        if adapter is None and not replicas.paused and any(replica.running for replica in replicas.members):
            raise ContractError(
                f"weights became version {version} during running requests, so the version of each token is unknown: "
                "pause the policy first"
            )
        ready = set(map(id, self.live if on is None else on))
        replicas.now, replicas.moved, replicas.control = WeightTag(version, adapter), True, True
        for replica in replicas.members:
            replica.stale = id(replica.server) not in ready
            if replica.stale:
                replica.cause = replica.cause or f"server {replica.address} was not sent version {version}"
        await replicas.name([replica for replica in replicas.members if replica.up])

    async def resume(self) -> None:
        """Go on sampling."""
        self._replicas.enter_loop()
        await self._replicas.each(lambda server: pausable(server).resume())
        self._replicas.release()

    async def drain(self) -> None:
        """Return when no request of an earlier version or adapter is under way."""
        replicas = self._replicas
        replicas.enter_loop()
        await replicas.finished(lambda stamp: stamp != replicas.now)

    async def close(self) -> None:
        """Let go of connections; the servers go on."""
        await asyncio.gather(*(server.close() for server in self.servers))


def _continued(seed: int, ids: tuple[int, ...]) -> int:
    """The seed of a continuation: with the first one again, tokens would be drawn by the numbers drawn before."""
    return int.from_bytes(stable_hash(seed, "continued", len(ids))[:7], "big") if ids else seed


def _versions(served: ServerResponse, stamp: WeightTag) -> tuple[int, ...]:
    """The version of each token: as the server tells it, else what the request was sent under.

    A server speaks of the weights of its base model; a request through an adapter is of the adapter's version.
    """
    if not served.spans or stamp.adapter is not None:
        return (stamp.version,) * len(served.completion.token_ids)
    return tuple(version for version, start, end in served.spans for _ in range(start, end))
