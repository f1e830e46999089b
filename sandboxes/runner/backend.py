"""``RunnerBackend``: the shared part of backends whose sandboxes have the runner; each backend only makes cells."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress

from ...errors import SandboxError
from ..backend import Backend
from ..loop import LOOP
from ..sandbox import Sandbox
from ..snapshot import Snapshot
from ..spec import SandboxSpec
from .archives import unpacked
from .behind import Behind
from .cell import Cell
from .files import entries_of
from .inside import RunnerSandbox
from .warm import WarmCells


class RunnerBackend(Backend):
    """Makes sandboxes from cells. A derived class implements ``probe``, ``reap`` and ``make_cell``."""

    def __init__(self) -> None:
        self._made: set[RunnerSandbox] = set()
        self.behind = Behind()
        """Tasks in the background."""
        self._warm = WarmCells(self.behind)

    def keep_ready(self, n: int) -> None:
        self._warm.size = n

    @abstractmethod
    async def make_cell(self, spec: SandboxSpec) -> Cell:
        """Return a started runner, confined by the spec; on the sandboxes' loop. If this fails, nothing is left.

        Raises:
            SandboxError: it could not be made this time.
        """

    def workdir_of(self, cell: Cell, spec: SandboxSpec) -> str:
        """Return the path of the working directory inside."""
        del cell
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
        return await LOOP.run(self._furnished(spec, files, start))

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
        # Differences that only concern the start of the runner need no other kind of cell.
        kind = spec.model_dump_json(exclude={"env", "relaxed"})
        while (ready := self._warm.take(kind, lambda: self.make_cell(spec))) is not None:
            with suppress(SandboxError):  # it died while it waited
                return await self.begun(ready, spec)
        return await self.begun(await self.make_cell(spec), spec)

    async def begun(self, cell: Cell, spec: SandboxSpec) -> RunnerSandbox:
        """Turn a new cell into a sandbox; on the sandboxes' loop.

        Raises:
            SandboxError: its runner does not answer.
        """
        made = RunnerSandbox(cell, spec, self.empty, self.workdir_of(cell, spec))
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
