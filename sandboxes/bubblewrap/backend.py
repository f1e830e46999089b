"""``bubblewrap``: sandboxes made of namespaces, a filter of system calls and control groups, in a few milliseconds."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

from ...errors import SandboxError, SandboxUnavailableError
from ..backend import Capabilities, Reaped
from ..loop import LOOP, to_thread
from ..runner.backend import RunnerBackend
from ..runner.launch import command
from ..runner.processes import kill_until_none, this_process
from ..runner.trees import left_behind, remove_tree
from ..spec import SandboxSpec
from . import seccomp
from .arguments import arguments, mounting
from .cgroups import Cgroups, here
from .promises import notes, promises, unavailable
from .rootfs import RUNNER, prepare, root_of
from .runner_process import BubblewrapProcess
from .uids import Uids
from .warm_slot import WarmSlot, make_slot, remove_slot

NUMBERS = count(1)
SPARE = 2
"""Warm slots that are kept ready."""


class BubblewrapBackend(RunnerBackend):
    """Makes sandboxes with the system's ``bwrap``. They share the kernel of this machine, and nothing else of it but
    its programs, which they can read.
    """

    name = "bubblewrap"

    def __init__(self) -> None:
        super().__init__()
        self._found: Capabilities | None = None
        self.cgroups = Cgroups(0, {}, "they were not looked for")
        self._uids, self._probing = Uids(), asyncio.Lock()
        self._prepared: Path | None = None
        self._mounts = True
        """Whether sandboxes can have file systems that limit the number of files."""
        self._slots: list[asyncio.Task[WarmSlot]] = []

    async def probe(self) -> Capabilities:
        if self._found is None:
            return await LOOP.run(self._probe())
        return self._found

    async def _probe(self) -> Capabilities:
        async with self._probing:
            found = self._found = self._found or await self._try()
            return found

    async def _try(self) -> Capabilities:
        """See whether sandboxes can be made, and if they can be made so that their files are counted."""
        missing = [tool for tool in ("bwrap", *(["setpriv"] if os.getuid() == 0 else [])) if not shutil.which(tool)]
        if missing or platform.machine() not in seccomp.AUDIT:
            return unavailable(self.name, missing, "")
        await self._reap()
        failed = list[str]()
        for self._mounts in (True, False):
            failed.append(await self._trial())
            if not failed[-1]:
                why = f"bwrap in {shutil.which('bwrap')}, {self.cgroups.why}"
                held = promises(self.cgroups, uncounted="" if self._mounts else failed[0])
                return Capabilities(self.name, True, True, why, held, notes(self.cgroups))
            await self._remove_berths()
        return unavailable(self.name, [], failed[-1])

    async def _trial(self) -> str:
        """Make one, run something in it, and end it; what is wrong, if anything is."""
        try:
            made = await self.open_sandbox(await self.start_runner(SandboxSpec()), SandboxSpec())
            try:
                tried = await made.exec(["/bin/sh", "-c", "echo works"])
            finally:
                await made.destroy()
        except (SandboxError, SandboxUnavailableError, OSError) as error:
            return str(error)
        return "" if tried.stdout.text == "works\n" else f"a trial said {tried.stdout.text!r} {tried.stderr.text!r}"

    def _ready(self) -> Path:
        """The folder of what every sandbox reads."""
        if self._prepared is None:
            self._prepared = Path(tempfile.gettempdir()) / f"turnwise-{this_process()}-runner-{next(NUMBERS):06d}"
            self._prepared.mkdir(mode=0o700)
            prepare(self._prepared)
        return self._prepared

    async def start_runner(self, spec: SandboxSpec) -> BubblewrapProcess:
        root = root_of(spec, self._ready())
        slot = await self._take()
        try:
            if slot.group is not None:
                slot.group.limit(spec.limits)
            mounted = self._ready() if self._mounts else None
            options = arguments(spec, root, mounted)
            slot.launch(seccomp.program(), options, mounting(spec.limits, mounted), command(root.python, RUNNER))
        except BaseException:
            await remove_slot(slot, self._uids)
            raise
        finally:
            self._slots += [asyncio.ensure_future(self._slot()) for _ in range(SPARE - len(self._slots))]
        return BubblewrapProcess(slot, self._uids)

    async def _take(self) -> WarmSlot:
        """A slot that is ready, or about to be."""
        making = self._slots.pop(0) if self._slots else asyncio.ensure_future(self._slot())
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._slots.append(making)  # for the next
            raise

    async def _slot(self) -> WarmSlot:
        name = f"turnwise-{this_process()}-{next(NUMBERS):06d}"
        return await make_slot(name, self.cgroups, self._uids, self._mounts)

    async def reap(self) -> Reaped:
        return await LOOP.run(self._reap())

    async def _reap(self) -> Reaped:
        self.cgroups = here()
        groups = processes = folders = 0
        for group in self.cgroups.left():
            processes += await kill_until_none(group.members)
            group.remove()
            groups += 1
        self._uids.reap()
        for folder in left_behind(Path(tempfile.gettempdir()), "runner"):
            await to_thread(partial(remove_tree, folder))
            folders += 1
        return Reaped(groups, processes, folders)

    async def close(self) -> None:
        await super().close()
        await LOOP.run(self._close())

    async def _remove_berths(self) -> None:
        slots, self._slots = self._slots, []
        for made in await asyncio.gather(*slots, return_exceptions=True):
            if isinstance(made, WarmSlot):
                await remove_slot(made, self._uids)

    async def _close(self) -> None:
        await self._remove_berths()
        prepared, self._prepared, self._found = self._prepared, None, None
        if prepared is not None:
            await to_thread(partial(remove_tree, prepared))
