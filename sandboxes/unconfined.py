"""``unconfined``: no sandbox at all, behind the same interface: for code that you would run yourself, no other."""

from __future__ import annotations

import sys
import tempfile
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path

from ..errors import SandboxUnavailableError
from .backend import Capabilities, Enforcement, Guarantee, Reaped
from .portal import aside, through
from .result import Stats
from .runner.backend import RunnerBackend
from .runner.cell import Cell
from .runner.child import Child, start_child
from .runner.launch import PROGRAM, command
from .runner.processes import descendants, kill_until_none, marks, owner_in, this_process
from .runner.trees import left_behind, remove_tree
from .spec import Limit, SandboxSpec

MARK = "TURNWISE_SANDBOX"
"""The environment variable by which whatever was started here is found again."""
HELD = {
    Limit.OUTPUT: Guarantee(Enforcement.ENFORCED, "the runner keeps no more of it"),
    Limit.LIFETIME: Guarantee(Enforcement.BEST_EFFORT, "what hides from its parent and its environment lives on"),
}
NOTHING = Guarantee(Enforcement.ABSENT, "nothing is confined: code runs as you do, with all that you may do")
NUMBERS = count(1)
LOOKS = 3
"""How often in a row no process with a mark must be found until none is believed to be left."""


class UnconfinedCell(Cell):
    """A temporary directory, and the runner as a plain child.

    Args:
        folder: where files lie; removed in the end.
        child: the runner.
    """

    def __init__(self, folder: Path, child: Child) -> None:
        self.id, self.folder, self.child = folder.name, folder, child
        self.reader: StreamReader = child.reader
        self.writer: StreamWriter = child.writer
        self._began, self._ended = time.monotonic(), False

    @property
    def env(self) -> Mapping[str, str]:
        """The mark: the runner has it, and whatever it starts must."""
        return {MARK: self.id}

    async def kill(self) -> None:
        """Kill the runner last: who loses its parent becomes its child, and cannot hide."""
        if self._ended:
            return
        self._ended = True
        await kill_until_none(lambda: descendants(self.child.pid))
        self.child.process.kill()
        await self.child.gone()
        await kill_until_none(lambda: {pid for pid, mark in marks(MARK).items() if mark == self.id}, looks=LOOKS)
        self.child.let_go()
        await aside(partial(remove_tree, self.folder))

    async def stats(self) -> Stats:
        """What can be counted without asking the kernel to count it."""
        pids = 0 if self._ended else len(descendants(self.child.pid)) + 1
        return Stats(None, None, pids, None, None, time.monotonic() - self._began)

    async def died(self) -> str:
        """How the runner ended."""
        if self._ended:
            return "it was destroyed"
        return f"the runner ended with {await self.child.gone()}: {self.child.said()}"


class UnconfinedBackend(RunnerBackend):
    """Runs code as you would run it yourself. It is never chosen unless it is named, and a spec must say for every
    limit that is not held that it may go without.
    """

    name = "unconfined"

    def __init__(self, parent: Path | None = None) -> None:
        super().__init__()
        self.parent = parent or Path(tempfile.gettempdir())

    async def probe(self) -> Capabilities:
        limits = {limit: HELD.get(limit, NOTHING) for limit in Limit}
        notes = ("images and mounts are refused: files lie in a temporary directory of this machine",)
        return Capabilities(self.name, True, False, "it confines nothing: for trusted code only", limits, notes)

    def workdir_of(self, cell: Cell, spec: SandboxSpec) -> str:
        del spec
        return str(self.parent / cell.id)

    async def make_cell(self, spec: SandboxSpec) -> Cell:
        if spec.image or spec.mounts:
            raise SandboxUnavailableError(
                "the unconfined backend runs code directly on this machine; it has no images and no mounts"
            )
        folder = self.parent / f"turnwise-{this_process()}-unconfined-{next(NUMBERS):06d}"
        folder.mkdir(mode=0o700)
        env = {MARK: folder.name}
        try:
            child = await start_child(command(sys.executable, str(PROGRAM.parent)), env=env, cwd=str(folder))
        except BaseException:
            folder.rmdir()
            raise
        return UnconfinedCell(folder, child)

    async def reap(self) -> Reaped:
        return await through(self._reap())

    async def _reap(self) -> Reaped:
        folders = left_behind(self.parent, "unconfined")
        processes = await kill_until_none(orphans, looks=LOOKS)  # also those whose folder is gone
        for folder in folders:
            await aside(partial(remove_tree, folder))
        return Reaped(len(folders), processes, len(folders))


def orphans() -> set[int]:
    """Processes that were started in sandboxes of this backend whose owners are gone."""
    found = {pid: owner_in(mark) for pid, mark in marks(MARK).items()}
    return {pid for pid, owner in found.items() if owner is not None and not owner.alive}
