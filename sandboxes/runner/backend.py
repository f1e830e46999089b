"""``RunnerBackend``: the shared part of backends whose sandboxes have the runner; each backend only makes runners."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress

from ...errors import SandboxError
from ..backend import Backend
from ..loop import LOOP, handed_over
from ..sandbox import Sandbox
from ..snapshot import Snapshot
from ..spec import SandboxSpec
from ..start_slots import StartSlots
from .archives import unpacked
from .background import BackgroundTasks
from .files import entries_of
from .inside import RunnerSandbox
from .runner_process import RunnerProcess
from .warm import WarmRunners


class RunnerBackend(Backend):
    """Makes sandboxes from runners. A derived class implements ``probe``, ``reap`` and ``start_runner``."""

    def __init__(self) -> None:
        self._made: set[RunnerSandbox] = set()
        self.background = BackgroundTasks()
        """Tasks in the background."""
        self._warm = WarmRunners(self.background)
        self._start_slots = StartSlots(self.name)

    def keep_ready(self, n: int) -> None:
        self._warm.size = n

    @abstractmethod
    async def start_runner(self, spec: SandboxSpec) -> RunnerProcess:
        """Return a started runner, confined by the spec; on the sandboxes' loop. If this fails, nothing is left.

        Raises:
            SandboxError: it could not be made this time.
        """

    def workdir_of(self, process: RunnerProcess, spec: SandboxSpec) -> str:
        """Return the path of the working directory inside."""
        del process
        return spec.workdir

    async def create(
        self,
        spec: SandboxSpec | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        start: Snapshot | None = None,
    ) -> Sandbox:
        spec = spec or SandboxSpec()
        (await self.probe()).demand(spec)
        return await handed_over(lambda: self._furnished(spec, files, start), RunnerSandbox.destroy)

    async def settled(self, spec: SandboxSpec) -> SandboxSpec:
        """Return a spec that holds here, with lasting names (such as digests) for all that could change; on the
        sandboxes' loop. A sandbox and its forks have it.
        """
        return spec

    async def _furnished(
        self, spec: SandboxSpec, files: Mapping[str, bytes] | None, start: Snapshot | None
    ) -> RunnerSandbox:
        settled = await self.settled(spec)
        entries = [*(unpacked(start) if start else ()), *entries_of(files or {}, executable=False)]
        made = await self.empty(settled)
        try:
            await made.put(entries)
        except BaseException:
            await asyncio.shield(made.destroy())
            raise
        return made

    async def empty(self, spec: SandboxSpec) -> RunnerSandbox:
        """Return a new, empty sandbox, whose spec has been checked; on the sandboxes' loop.

        Raises:
            SandboxError: it could not be made this time.
        """
        # Differences that only concern the start of the runner need no other kind of process.
        kind = spec.model_dump_json(exclude={"env", "relaxed"})
        while (ready := self._warm.take(kind, lambda: self._start_early(spec))) is not None:
            with suppress(SandboxError):  # it died while it waited
                return await self.open_sandbox(ready, spec)
        await self.prepare(spec)
        async with self._start_slots.slot():
            return await self.open_sandbox(await self.start_runner(spec), spec)

    async def prepare(self, spec: SandboxSpec) -> None:
        """Make ready what a start needs, such as an image, without holding a slot."""

    async def _start_early(self, spec: SandboxSpec) -> RunnerProcess:
        """Start a runner ahead of time."""
        await self.prepare(spec)
        async with self._start_slots.slot():
            return await self.start_runner(spec)

    async def open_sandbox(self, process: RunnerProcess, spec: SandboxSpec) -> RunnerSandbox:
        """Turn a new process into a sandbox; on the sandboxes' loop.

        Raises:
            SandboxError: its runner does not answer.
        """
        made = RunnerSandbox(process, spec, self.empty, self.workdir_of(process, spec))
        self._made = {one for one in self._made if one.alive} | {made}
        try:
            await made.begin()
        except BaseException:
            await asyncio.shield(made.destroy())
            raise
        return made

    async def close(self) -> None:
        made, self._made = self._made, set()
        await asyncio.gather(*(one.destroy() for one in made))
        await LOOP.run(self._warm.close())
