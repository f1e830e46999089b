"""One completion over a policy's replicas: choose a replica, retry, and decide whose fault a timeout is."""

from __future__ import annotations

import asyncio

from ...errors import InfrastructureError, PolicyServerError, PolicyTimeoutError, ServerSettingsError, UsageError
from ..policy import Finish, Sampling
from .replica import Replica, WeightTag
from .replica_set import GLANCE, ReplicaSet
from .retrying import TRIES, log_retry, pause_after
from .server import ServerResponse

IN_A_ROW = 3
"""Number of consecutive faults of one replica after which it gets no requests for a while."""


class CompletionRequest:
    """One completion, with its time and faults so far over all replicas, retries, pauses and continuations.

    ``limits.request`` bounds the seconds in which it is in flight, ``limits.patience`` those without an available
    replica, and ``limits.max_wait`` both together. Pauses and waiting for room at a replica count for none of them.

    Args:
        replicas: replicas of the policy.
        session: id of the session; its requests keep to one replica.
    """

    def __init__(self, replicas: ReplicaSet, session: str) -> None:
        self._replicas, self._session = replicas, session
        self._faults: list[tuple[Replica, InfrastructureError]] = []
        self._avoided: set[Replica] = set()  # tried last, since they failed this completion
        self._search_seconds = 0.0
        self._in_flight_seconds = 0.0  # since its last fault
        self._failed_seconds = 0.0  # of tries before its last fault

    async def send(self, prompt: tuple[int, ...], sampling: Sampling) -> tuple[ServerResponse, WeightTag]:
        """Return one answer, from any replica, and the tag of the weights that the request was sent under.

        Raises:
            PolicyTimeoutError: the request exceeds its time limit at a server that works.
            InfrastructureError: no replica gave a good answer within the limits of faults and time.
            UsageError: a server's own settings cut answers short.
        """
        replicas = self._replicas
        while True:
            replica = await self._wait_for_replica()
            async with replica.slot():
                if replicas.paused or not replica.up:
                    continue
                tag = replicas.now
                try:
                    served = await self._send_to(replica, prompt, sampling, tag)
                except InfrastructureError as error:
                    self._record_fault(replica, error)
                else:
                    if served is not None:
                        replica.record_success(asyncio.get_running_loop().time())
                        return served, tag
                    continue
            await asyncio.sleep(pause_after(len(self._faults)))

    async def _wait_for_replica(self) -> Replica:
        """Wait for an available replica and return it.

        Raises:
            InfrastructureError: none is available in time, or all need weights first.
        """
        replicas = self._replicas
        while True:
            await replicas.gate.wait()
            # Time spent probing a failed replica counts against patience only while no other one is up.
            before, alone = replicas.open_clock.seconds, replicas.find_up(self._session, self._avoided) is None
            try:
                async with asyncio.timeout(replicas.limits.patience - self._search_seconds):
                    if replica := await replicas.choose(self._session, self._avoided):
                        return replica
                    await replicas.wait_until_due()
            except TimeoutError:
                if replica := replicas.find_up(self._session, self._avoided):
                    return replica  # available by now: stop waiting for the one that was probed
            finally:
                self._search_seconds += replicas.open_clock.seconds - before if alone else 0.0
            if self._search_seconds >= replicas.limits.patience:
                raise replicas.unavailable_error()

    async def _send_to(
        self, replica: Replica, prompt: tuple[int, ...], sampling: Sampling, tag: WeightTag
    ) -> ServerResponse | None:
        """Send the request and return the answer; ``None`` if a pause withdrew it."""
        limits, clock = self._replicas.limits, self._replicas.unfrozen_clock
        # Without earlier faults ``own`` is the smaller one. Otherwise a timeout may be the fault of the servers.
        own = limits.request - self._in_flight_seconds
        left = limits.max_wait - self._failed_seconds - self._search_seconds - self._in_flight_seconds
        generation = replica.server.generate(prompt, sampling, session=self._session, adapter=tag.adapter)
        task = asyncio.ensure_future(generation)
        replica.running[task] = tag
        began, served = clock.seconds, None
        try:
            if await self._wait_for_answer(task, min(own, left)):
                served = task.result()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task in replica.withdrawn and not (current and current.cancelling()):
                return None
            raise
        finally:
            self._in_flight_seconds += clock.seconds - began
            replica.running.pop(task, None)
            replica.withdrawn.discard(task)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if served is None:
            await self._raise_timeout(replica, whole=own <= left)
        else:
            self._check(replica, served, tag)
        return served

    async def _wait_for_answer(self, task: asyncio.Task[ServerResponse], seconds: float) -> bool:
        """Wait this many seconds, frozen time excluded, and return whether an answer came."""
        clock = self._replicas.unfrozen_clock
        end = clock.seconds + seconds
        while not task.done() and (left := end - clock.seconds) > 0:
            await asyncio.wait([task], timeout=left if clock.running else max(left, GLANCE))
        return task.done()

    async def _raise_timeout(self, replica: Replica, *, whole: bool) -> None:
        """Raise the error of the party that is responsible for the timeout.

        Args:
            replica: replica that has the request.
            whole: whether the request had all of its time.

        Raises:
            PolicyTimeoutError: the server works, so the policy is slow.
            InfrastructureError: the server does not answer, or earlier faults used up the time.
        """
        seconds = f"{self._replicas.limits.request:g} s"
        if not whole:
            raise self._replicas.unavailable_error()
        if await self._responds(replica):
            raise PolicyTimeoutError(
                f"no completion after {seconds} (request_timeout), although server {replica.address} works: the policy "
                "writes too long"
            )
        raise InfrastructureError(
            f"server {replica.address} did not answer within {seconds}, nor did it answer a probe"
        )

    async def _responds(self, replica: Replica) -> bool:
        """Return whether a replica answers anything from now on; look again if a pause interferes."""
        replicas, since = self._replicas, asyncio.get_running_loop().time()
        while True:
            await replicas.gate.wait()
            before, pauses, works = replicas.open_clock.seconds, replicas.pauses, False
            try:
                async with asyncio.timeout(replicas.limits.patience - self._search_seconds):
                    works = await replica.responds_since(since)
            except TimeoutError:
                works = replica.last_answer > since
            finally:
                self._search_seconds += replicas.open_clock.seconds - before
            if works or pauses == replicas.pauses:
                return works

    def _record_fault(self, replica: Replica, error: InfrastructureError) -> None:
        """Record a fault; a replica that makes several in a row gets no requests for a while.

        Raises:
            InfrastructureError: the completion has met its maximum number of faults, or its time is up.
            UsageError: a server's settings caused the fault, for the second time.
        """
        self._failed_seconds, self._in_flight_seconds = self._failed_seconds + self._in_flight_seconds, 0.0
        cut = isinstance(error, ServerSettingsError)
        if cut and any(isinstance(earlier, ServerSettingsError) for _, earlier in self._faults):
            raise UsageError(f"{error} (sent twice with one seed)")
        self._faults.append((replica, error))
        # One faulty answer may be chance, so only several in a row make a working replica unavailable.
        last = [each for each, _ in self._faults[-IN_A_ROW:]]
        if not isinstance(error, PolicyServerError) or last == [replica] * IN_A_ROW:
            self._avoided.add(replica)
            replica.record_failure(error, asyncio.get_running_loop().time())
        if len(self._faults) >= TRIES:
            raise type(error)(f"{error} (sent {TRIES} times)")
        if self._failed_seconds + self._search_seconds >= self._replicas.limits.max_wait:
            raise self._replicas.unavailable_error()
        log_retry(error, len(self._faults), replica.address)

    def _check(self, replica: Replica, served: ServerResponse, tag: WeightTag) -> None:
        """Check an answer against the state of the replica.

        Raises:
            InfrastructureError: the replica restarted, aborted the request, or reports impossible versions.
        """
        replicas, ids = self._replicas, served.completion.token_ids
        if replica.named and tag.adapter is None and ids and not served.spans:
            raise InfrastructureError(
                f"server {replica.address} has lost the name of its weights: it restarted in between"
            )
        reported = [version for version, _, _ in served.spans] if replica.named and tag.adapter is None else []
        if reported and not tag.version <= min(reported) <= max(reported) <= replicas.now.version:
            raise PolicyServerError(
                f"server {replica.address} reports tokens of versions {sorted(set(reported))}, but since the request "
                f"it had versions {tag.version} to {replicas.now.version}"
            )
        if served.completion.finish is Finish.ABORT and not ids and not replicas.paused:
            raise InfrastructureError(f"server {replica.address} aborted a request before its first token")
