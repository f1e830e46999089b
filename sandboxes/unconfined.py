"""``unconfined``: no isolation, behind the same interface, only for code that you would run yourself."""

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
from .loop import LOOP, to_thread
from .result import Stats
from .runner.backend import RunnerBackend
from .runner.child import Child, start_child
from .runner.launch import PROGRAM, command
from .runner.processes import descendants, kill_until_none, marks, owner_in, this_process
from .runner.runner_process import RunnerProcess
from .runner.trees import left_behind, remove_tree
from .spec import Limit, SandboxSpec

MARK = "TURNWISE_SANDBOX"
"""Environment variable that identifies processes started here."""
HELD = {
    Limit.OUTPUT: Guarantee(Enforcement.ENFORCED, "the runner keeps no more of it"),
    Limit.LIFETIME: Guarantee(Enforcement.BEST_EFFORT, "what hides from its parent and its environment lives on"),
}
NOTHING = Guarantee(Enforcement.ABSENT, "nothing is confined: code runs as you do, with all that you may do")
NUMBERS = count(1)
LOOKS = 3
"""Number of consecutive searches without a marked process after which none is assumed to be left."""


class UnconfinedProcess(RunnerProcess):
    """A temporary directory, and the runner as a plain child process.

    Args:
        folder: folder for files; removed at the end.
        child: process of the runner.
    """

    def __init__(self, folder: Path, child: Child) -> None:
        self.id, self.folder, self.child = folder.name, folder, child
        self.reader: StreamReader = child.reader
        self.writer: StreamWriter = child.writer
        self._began, self._ended = time.monotonic(), False

    @property
    def env(self) -> Mapping[str, str]:
        """The mark: the runner and all processes that it starts have it."""
        return {MARK: self.id}

    async def kill(self) -> None:
        """Kill the runner last: orphaned processes become its children, and cannot hide."""
        if self._ended:
            return
        self._ended = True
        await kill_until_none(lambda: descendants(self.child.pid))
        self.child.process.kill()
        await self.child.gone()
        await kill_until_none(lambda: {pid for pid, mark in marks(MARK).items() if mark == self.id}, looks=LOOKS)
        self.child.close()
        await to_thread(partial(remove_tree, self.folder))

    async def stats(self) -> Stats:
        """Return the usage that can be measured without the kernel's counters."""
        pids = 0 if self._ended else len(descendants(self.child.pid)) + 1
        return Stats(None, None, pids, None, None, time.monotonic() - self._began)

    async def died(self) -> str:
        """Describe how the runner ended."""
        if self._ended:
            return "it was destroyed"
        return f"the runner ended with {await self.child.gone()}: {self.child.said()}"


class UnconfinedBackend(RunnerBackend):
    """Runs code with your own rights. It is used only if you name it, and a spec must relax every limit that it does
    not enforce.
    """

    name = "unconfined"

    def __init__(self, parent: Path | None = None) -> None:
        super().__init__()
        self.parent = parent or Path(tempfile.gettempdir())

    async def probe(self) -> Capabilities:
        limits = {limit: HELD.get(limit, NOTHING) for limit in Limit}
        notes = ("images and mounts are refused: files lie in a temporary directory of this machine",)
        return Capabilities(self.name, True, False, "it confines nothing: for trusted code only", limits, notes)

    def workdir_of(self, process: RunnerProcess, spec: SandboxSpec) -> str:
        del spec
        return str(self.parent / process.id)

    async def start_runner(self, spec: SandboxSpec) -> RunnerProcess:
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
        return UnconfinedProcess(folder, child)

    async def reap(self) -> Reaped:
        return await LOOP.run(self._reap())

    async def _reap(self) -> Reaped:
        folders = left_behind(self.parent, "unconfined")
        processes = await kill_until_none(orphans, looks=LOOKS)  # also those whose folder was removed
        for folder in folders:
            await to_thread(partial(remove_tree, folder))
        return Reaped(len(folders), processes, len(folders))


def orphans() -> set[int]:
    """Return processes of this backend's sandboxes whose owners are dead."""
    found = {pid: owner_in(mark) for pid, mark in marks(MARK).items()}
    return {pid for pid, owner in found.items() if owner is not None and not owner.alive}
