"""``RunnerBackend``: what backends whose sandboxes hold the runner have in common; each only makes cells."""

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
    """Makes sandboxes out of cells. A derived class gives ``probe``, ``reap`` and ``make_cell``."""

    def __init__(self) -> None:
        self._made: set[RunnerSandbox] = set()
        self.behind = Behind()
        """What goes on while nobody waits for it."""
        self._warm = WarmCells(self.behind)

    def keep_ready(self, n: int) -> None:
        self._warm.size = n

    @abstractmethod
    async def make_cell(self, spec: SandboxSpec) -> Cell:
        """A started runner, confined as the spec demands; on the sandboxes' loop. If it fails, nothing is left.

        Raises:
            SandboxError: it could not be made this time.
        """

    def workdir_of(self, cell: Cell, spec: SandboxSpec) -> str:
        """What the working directory is called inside."""
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
        """A spec that holds here, with whatever could mean something else tomorrow named for good; on the sandboxes'
        loop. A sandbox and its forks have it.
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
        """A new sandbox with nothing in it, whose spec has been found to hold; on the sandboxes' loop.

        Raises:
            SandboxError: it could not be made this time.
        """
        # What a runner is told when it begins makes no other kind of cell.
        kind = spec.model_dump_json(exclude={"env", "relaxed"})
        while (ready := self._warm.take(kind, lambda: self.make_cell(spec))) is not None:
            with suppress(SandboxError):  # it died while it waited
                return await self.begun(ready, spec)
        return await self.begun(await self.make_cell(spec), spec)

    async def begun(self, cell: Cell, spec: SandboxSpec) -> RunnerSandbox:
        """The sandbox that a new cell becomes; on the sandboxes' loop.

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
