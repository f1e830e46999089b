"""``RemotePolicy``: a policy on one or many servers, whose weights may change while it samples."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...errors import ContractError, PolicyServerError, TurnwiseError, UsageError
from ...logs import event
from ...tasks.rng import stable_hash
from ..policy import Completion, Finish, Sampling
from .answers import too_long
from .completion_request import CompletionRequest
from .limits import TimeLimits
from .replica import WeightTag
from .replica_set import Refresh, ReplicaSet
from .server import Capabilities, Pause, Sampler, ServerResponse, pausable

LOG = logging.getLogger(__name__)
MOST_PARTS = 64
"""Maximum number of parts of a completion; weights do not change more often within one."""
GRACE = 2.0
"""Seconds to wait for the answers of aborted requests; those that are missing then start over."""


class RemotePolicy:
    """Samples from replicas of one model.

    A session keeps to one replica, whose prefix cache then has its history. Each replica has a maximum number of
    requests in flight, and more wait for it. Sampling has no side effects, so a request whose replica failed is sent
    to another one with the same seed. It fails, as ``InfrastructureError``, only when none answers for a while. No
    other call is ever sent twice. A cancelled call aborts its request on the server.

    Weights change between ``pause`` and ``resume``::

        await policy.pause(Pause.ABORT)
        ...                            # each server of policy.live takes the new weights and clears its cache
        await policy.begin_version(7)
        await policy.resume()

    Every token has the version that sampled it, as the server reports it. For servers that do not, the policy itself
    keeps the versions and pauses around every change. ``Pause.ABORT`` interrupts requests, and they continue from their
    last token, so one action may span versions. An adapter changes without a pause: ``begin_version(7, adapter="v7")``
    applies to later requests, and ``drain`` waits for the earlier ones.

    Args:
        servers: servers of the same model.
        max_in_flight: maximum number of requests in flight at each replica.
        patience: seconds that a request waits for an available replica, without pauses and waiting for room.
        request_timeout: seconds for one completion, without pauses; one that takes longer at a server that works is
            the policy's own failure.
        backoff: seconds until a replica that failed is probed again; doubles each time, up to 5.
        version: version of the weights that the servers have at first.
        seed: seed of the policy's own generator, which seeds requests without a seed.

    Raises:
        UsageError: there are no servers, two have the same address, or a limit is out of range.
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
        """Version of the weights that sample from now on."""
        return self._replicas.now.version

    @property
    def adapter(self) -> str | None:
        """Name of the adapter that samples; ``None`` for the base model."""
        return self._replicas.now.adapter

    @property
    def max_wait(self) -> float:
        """Maximum seconds to wait for a completion, without pauses and waiting for room at a replica."""
        return self.limits.max_wait

    @property
    def context_length(self) -> int:
        """Maximum tokens of prompt and action together; 0 before ``open``."""
        return self._context_length

    @property
    def servers(self) -> tuple[Sampler, ...]:
        """Servers of all replicas."""
        return tuple(replica.server for replica in self._replicas.members)

    @property
    def live(self) -> tuple[Sampler, ...]:
        """Servers that are not known to be down, including those that came back with old weights and need new ones."""
        return self._replicas.live

    async def open(self, *, control: bool = False) -> tuple[Capabilities, ...]:
        """Ask every replica for its capabilities; all must answer but those that join later, and serve the same model.

        Args:
            control: whether this process will change the weights. Then replicas that an earlier run left paused are
                resumed, and all receive the name of their weights.

        Raises:
            UsageError: a replica cannot be used, does not match the others, or cannot be controlled.
            InfrastructureError: a replica cannot be reached.
        """
        replicas = self._replicas
        replicas.enter_loop()
        found = await replicas.probe(control=control)
        self._context_length, replicas.control = found[0].context_length, replicas.control or control
        if control:
            await replicas.send_version(replicas.members)
        return tuple(found)

    def expect(self, late: Mapping[Sampler, str]) -> None:
        """Do without servers that have not started yet, each for a reason; each joins when it answers a probe.

        If the weights have changed by then, it gets no requests until it has received them.
        """
        for replica in self._replicas.members:
            if (why := late.get(replica.server)) is not None:
                replica.expect(why)

    async def generate(self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str = "") -> Completion:
        """Sample one continuation of ``prompt_ids``; see ``Policy``.

        Raises:
            PromptTooLongError: the prompt leaves no room for a single token.
            ContractError: the prompt is empty or has an invalid id.
            PolicyTimeoutError: it takes longer than ``request_timeout`` at a server that works.
            InfrastructureError: no replica gave a good answer in time.
            UsageError: a server's own settings cut answers short.
        """
        started = time.perf_counter()
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
        parts, request = 0, CompletionRequest(self._replicas, session)
        while finish is Finish.ABORT and len(ids) < limit:  # aborted, e.g. by a pause: continue
            if (parts := parts + 1) > MOST_PARTS:
                raise PolicyServerError(f"a server of the policy aborted one completion {MOST_PARTS} times")
            part = replace(sampling, max_tokens=limit - len(ids), seed=_continuation_seed(seed, ids))
            served, tag = await request.send((*prompt, *ids), part)
            ids += served.completion.token_ids
            logprobs += served.completion.logprobs
            versions += _versions(served, tag)
            finish = served.completion.finish
        if finish is Finish.ABORT:
            finish = Finish.LENGTH
        return Completion(ids, logprobs, versions, finish, time.perf_counter() - started)

    def recipe(self) -> Callable[[], RemotePolicy] | None:
        """Return how another process makes this policy, to ask the servers itself; ``None`` if it must ask this one.

        Only this process knows which servers have which weights once it has changed or may change them, and where
        servers are that a cluster places.
        """
        if not all(getattr(server, "portable", True) for server in self.servers):
            return None
        if self._replicas.control or self._replicas.weights_changed or self.version:
            return None
        limits = self.limits
        return partial(RemotePolicy, self.servers, patience=limits.patience, request_timeout=limits.request)

    # -- weights ------------------------------------------------------------------------------------------------

    async def pause(self, mode: Pause) -> None:
        """Stop sampling on all replicas, so that weights can change; return once it has stopped.

        Args:
            mode: treatment of requests in flight.

        Raises:
            UsageError: a replica cannot be paused, or does not report versions, which ``Pause.KEEP`` needs.
            InfrastructureError: no replica is available.
        """
        replicas = self._replicas
        await self.refresh_health()
        unversioned = [r.address for r in replicas.members if r.capabilities and not r.capabilities.version_spans]
        if mode is Pause.KEEP and unversioned:
            raise UsageError(
                "pausing with 'keep' freezes requests and continues them with the new weights, but "
                f"{unversioned[0]} does not report which weights sampled which token (vLLM does since 0.32, with "
                "--enable-scale-out). Use 'abort' or 'wait', which are exact with every version"
            )
        replicas.hold(frozen=mode is not Pause.WAIT)  # WAIT lets requests in flight finish
        try:
            if mode is Pause.WAIT:  # before pausing: paused servers hold back requests that they have not started
                await replicas.wait_until_finished(lambda tag: True)
            await replicas.call_all(lambda server: pausable(server).pause(mode))
        except BaseException:
            replicas.release()
            with contextlib.suppress(TurnwiseError):  # the caller needs the error of the pause
                await replicas.call_all(lambda server: pausable(server).resume())
            raise
        if mode is Pause.ABORT:
            await replicas.requeue_in_flight(GRACE)
        servers = [server.address for server in self.live]
        event(LOG, "pause", f"paused sampling ({mode})", {"mode": str(mode), "servers": servers})

    async def refresh_health(self) -> tuple[Sampler, ...]:
        """Probe the replicas that were down, and return the servers that can receive weights.

        Raises:
            InfrastructureError: no replica is available.
        """
        self._replicas.enter_loop()
        return await self._replicas.refresh_health()

    async def begin_version(
        self, version: int, *, adapter: str | None = None, on: Collection[Sampler] | None = None
    ) -> None:
        """Record new weights; later tokens have their version.

        Args:
            version: version of the weights.
            adapter: name of the loaded adapter that has them; ``None`` for weights of the base model.
            on: servers that have them, by default all live ones; the others get no requests until they have them.

        Raises:
            ContractError: requests are in flight, whose weights changed without a pause.
        """
        replicas = self._replicas
        replicas.enter_loop()
        if adapter is None and not replicas.paused and any(replica.running for replica in replicas.members):
            raise ContractError(
                f"weights became version {version} during running requests, so the version of each token is unknown: "
                "pause the policy first"
            )
        ready = set(map(id, self.live if on is None else on))
        replicas.now, replicas.weights_changed, replicas.control = WeightTag(version, adapter), True, True
        for replica in replicas.members:
            replica.stale, replica.refused = id(replica.server) not in ready, False
            if replica.stale:
                replica.cause = replica.cause or f"server {replica.address} was not sent version {version}"
        await replicas.send_version([replica for replica in replicas.members if replica.up])

    async def refresh_with(self, refresh: Refresh | None) -> None:
        """Bring servers that restarted or join late up to date between two changes of weights, or stop doing so.

        Args:
            refresh: function that gives one server the present weights; ``None`` before weights change, which waits
                until no server is being given the present ones.
        """
        replicas = self._replicas
        replicas.enter_loop()
        await replicas.stop_refreshing()
        replicas.refresh = refresh
        replicas.refreshable = replicas.refreshable or refresh is not None

    async def resume(self) -> None:
        """Continue sampling."""
        self._replicas.enter_loop()
        await self._replicas.call_all(lambda server: pausable(server).resume())
        self._replicas.release()
        event(LOG, "resume", "sampling continues", {"version": self._replicas.now.version})

    async def drain(self) -> None:
        """Wait until no request of an earlier version or adapter is in flight."""
        replicas = self._replicas
        replicas.enter_loop()
        await replicas.wait_until_finished(lambda tag: tag != replicas.now)

    async def close(self) -> None:
        """Close connections; the servers continue to run."""
        self._replicas.enter_loop()
        await self._replicas.stop_refreshing()
        await asyncio.gather(*(server.close() for server in self.servers))


def _continuation_seed(seed: int, ids: tuple[int, ...]) -> int:
    """Return the seed of a continuation; with the first seed, the same random numbers would be drawn again."""
    return int.from_bytes(stable_hash(seed, "continued", len(ids))[:7], "big") if ids else seed


def _versions(served: ServerResponse, tag: WeightTag) -> tuple[int, ...]:
    """Return the version of each token: as the server reports it, or else the version the request was sent under.

    A server reports the weights of its base model, so a request through an adapter has the adapter's version.
    """
    if not served.spans or tag.adapter is not None:
        return (tag.version,) * len(served.completion.token_ids)
    return tuple(version for version, start, end in served.spans for _ in range(start, end))
