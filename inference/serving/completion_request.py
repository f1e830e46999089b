"""One completion over a policy's replicas: who is asked, what is asked again, and whose fault it is that time is up."""

from __future__ import annotations

import asyncio

from ...errors import InfrastructureError, PolicyServerError, PolicyTimeoutError, ServerSettingsError, UsageError
from ..policy import Finish, Sampling
from .replica import Replica, WeightTag
from .replica_set import GLANCE, ReplicaSet
from .retrying import TRIES, pause_after
from .server import ServerResponse

IN_A_ROW = 3
"""How many faults one replica may answer, one after another, before it is left alone."""


class CompletionRequest:
    """One completion: what it has cost so far, over all replicas, rounds, pauses and continuations.

    ``limits.request`` bounds the seconds that it is under way; ``limits.patience`` those in which no replica can be
    found that takes it; ``limits.silence`` all of them together. Pauses and waiting for room count as none.

    Args:
        replicas: the replicas.
        session: requests with the same id keep to one replica.
    """

    def __init__(self, replicas: ReplicaSet, session: str) -> None:
        self._replicas, self._session = replicas, session
        self._faults: list[tuple[Replica, InfrastructureError]] = []
        self._shunned: set[Replica] = set()  # asked last, since they failed it
        self._searched = 0.0
        self._under_way = 0.0  # since it last failed
        self._failed = 0.0  # in requests that failed

    async def ask(self, prompt: tuple[int, ...], sampling: Sampling) -> tuple[ServerResponse, WeightTag]:
        """One answer, of whichever replica gives it, and what it was asked under.

        Raises:
            PolicyTimeoutError: it takes longer than a request may, at a server that works.
            InfrastructureError: no replica gave a good answer, in as many tries and as much time as there are.
            UsageError: a server's own settings cut answers short.
        """
        replicas = self._replicas
        while True:
            replica = await self._found()
            async with replica.room:
                if replicas.paused or not replica.up:
                    continue
                stamp = replicas.now
                try:
                    served = await self._sent(replica, prompt, sampling, stamp)
                except InfrastructureError as error:
                    self._at_fault(replica, error)
                else:
                    if served is not None:
                        replica.succeeded(asyncio.get_running_loop().time())
                        return served, stamp
                    continue
            await asyncio.sleep(pause_after(len(self._faults)))

    async def _found(self) -> Replica:
        """A replica that is well.

        Raises:
            InfrastructureError: there is none for as long as is waited, or all need weights first.
        """
        replicas = self._replicas
        while True:
            await replicas.gate.wait()
            before, alone = replicas.open_for.seconds, replicas.well(self._session, self._shunned) is None
            try:
                async with asyncio.timeout(replicas.limits.patience - self._searched):
                    if replica := await replicas.choose(self._session, self._shunned):
                        return replica
                    await replicas.until_due()
            except TimeoutError:
                if replica := replicas.well(self._session, self._shunned):
                    return replica  # the one that was looked at is not waited for any longer
            finally:
                self._searched += replicas.open_for.seconds - before if alone else 0.0
            if self._searched >= replicas.limits.patience:
                raise replicas.silent()

    async def _sent(
        self, replica: Replica, prompt: tuple[int, ...], sampling: Sampling, stamp: WeightTag
    ) -> ServerResponse | None:
        """What the replica answered; ``None`` if a pause took the request back."""
        limits, clock = self._replicas.limits, self._replicas.working
        own = limits.request - self._under_way
        left = limits.silence - self._failed - self._searched - self._under_way
        asked = replica.server.generate(prompt, sampling, session=self._session, adapter=stamp.adapter)
        task = asyncio.ensure_future(asked)
        replica.running[task] = stamp
        began, served = clock.seconds, None
        try:
            if await self._in_time(task, min(own, left)):
                served = task.result()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task in replica.withdrawn and not (current and current.cancelling()):
                return None
            raise
        finally:
            self._under_way += clock.seconds - began
            replica.running.pop(task, None)
            replica.withdrawn.discard(task)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if served is None:
            await self._overdue(replica, whole=own <= left)
        else:
            self._check(replica, served, stamp)
        return served

    async def _in_time(self, task: asyncio.Task[ServerResponse], seconds: float) -> bool:
        """Whether an answer comes in so many seconds, in which the servers were not frozen."""
        clock = self._replicas.working
        end = clock.seconds + seconds
        while not task.done() and (left := end - clock.seconds) > 0:
            await asyncio.wait([task], timeout=left if clock.running else max(left, GLANCE))
        return task.done()

    async def _overdue(self, replica: Replica, *, whole: bool) -> None:
        """Say whose fault it is that time is up.

        Args:
            replica: what was asked.
            whole: the request had all of its time.

        Raises:
            PolicyTimeoutError: the server works: what is slow is the policy.
            InfrastructureError: the server does not answer anything, or earlier faults took the time.
        """
        seconds = f"{self._replicas.limits.request:g} s"
        if not whole:
            raise self._replicas.silent()
        if await self._works(replica):
            raise PolicyTimeoutError(
                f"no completion after {seconds} (request_timeout), although server {replica.address} works: the policy "
                "writes too long"
            )
        raise InfrastructureError(
            f"server {replica.address} did not answer within {seconds}, nor did it answer a probe"
        )

    async def _works(self, replica: Replica) -> bool:
        """Whether it answers anything, from now on; a pause meanwhile tells nothing."""
        replicas, since = self._replicas, asyncio.get_running_loop().time()
        while True:
            await replicas.gate.wait()
            before, pauses, works = replicas.open_for.seconds, replicas.pauses, False
            try:
                async with asyncio.timeout(replicas.limits.patience - self._searched):
                    works = await replica.works(since)
            except TimeoutError:
                works = replica.answered > since
            finally:
                self._searched += replicas.open_for.seconds - before
            if works or pauses == replicas.pauses:
                return works

    def _at_fault(self, replica: Replica, error: InfrastructureError) -> None:
        """Take note of a fault; a replica that goes on making them is left alone for a while.

        Raises:
            InfrastructureError: there were as many as one completion may meet, or time is up.
            UsageError: it is one of a server's settings, for the second time.
        """
        self._failed, self._under_way = self._failed + self._under_way, 0.0
        cut = isinstance(error, ServerSettingsError)
        if cut and any(isinstance(earlier, ServerSettingsError) for _, earlier in self._faults):
            raise UsageError(f"{error} (sent twice with one seed)")
        self._faults.append((replica, error))
        last = [each for each, _ in self._faults[-IN_A_ROW:]]
        if not isinstance(error, PolicyServerError) or last == [replica] * IN_A_ROW:
            self._shunned.add(replica)
            replica.failed(error, asyncio.get_running_loop().time())
        if len(self._faults) >= TRIES:
            raise type(error)(f"{error} (sent {TRIES} times)")
        if self._failed + self._searched >= self._replicas.limits.silence:
            raise self._replicas.silent()

    def _check(self, replica: Replica, served: ServerResponse, stamp: WeightTag) -> None:
        """Hold an answer against the state of the replica.

        Raises:
            InfrastructureError: the replica was restarted, aborted the request, or gives versions that cannot be.
        """
        replicas, ids = self._replicas, served.completion.token_ids
        if replica.named and stamp.adapter is None and ids and not served.spans:
            raise InfrastructureError(
                f"server {replica.address} has lost the name of its weights: it restarted in between"
            )
        told = [version for version, _, _ in served.spans] if replica.named and stamp.adapter is None else []
        if told and not stamp.version <= min(told) <= max(told) <= replicas.now.version:
            raise PolicyServerError(
                f"server {replica.address} reports tokens of versions {sorted(set(told))}, but since the request it "
                f"had versions {stamp.version} to {replicas.now.version}"
            )
        if served.completion.finish is Finish.ABORT and not ids and not replicas.paused:
            raise InfrastructureError(f"server {replica.address} aborted a request before its first token")
