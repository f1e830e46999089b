"""``BubblewrapProcess``: the runner in namespaces of its own, with limits by a control group."""

from __future__ import annotations

import time
from asyncio import StreamReader, StreamWriter

from ..result import Stats
from ..runner.processes import descendants, kill_until_none
from ..runner.runner_process import RunnerProcess
from ..usage import Usage
from .uids import Uids
from .warm_slot import WarmSlot, give_back


class BubblewrapProcess(RunnerProcess):
    """A slot whose shell has become bubblewrap.

    Args:
        slot: its slot.
        uids: registry that its user id comes from.
    """

    def __init__(self, slot: WarmSlot, uids: Uids) -> None:
        self.id, self._slot, self._uids = slot.name, slot, uids
        self._child, self._group = slot.child, slot.group
        self.reader: StreamReader = slot.child.reader
        self.writer: StreamWriter = slot.child.writer
        self._began, self._ended, self._last = time.monotonic(), False, Usage({}).stats(0.0)

    async def kill(self) -> None:
        """Kill by control group until it is empty: bubblewrap's own death can leave what it has started (#633)."""
        if self._ended:
            return
        self._last, self._ended = self._read(), True
        self.writer.close()  # ends a runner that is still starting
        if self._group is None:
            await kill_until_none(lambda: descendants(self._child.pid))
        else:
            await kill_until_none(self._group.members)
        if self._child.process.poll() is None:
            self._child.process.kill()
        await self._child.gone()
        await give_back(self._group, self._uids, self._slot.uid)
        self._child.close()

    async def stats(self) -> Stats:
        """Return the counters of the control group."""
        return self._last if self._ended else self._read()

    def _read(self) -> Stats:
        usage = self._group.usage() if self._group else Usage({})
        return usage.stats(time.monotonic() - self._began)

    async def died(self) -> str:
        """Return why the runner has ended, as seen from outside."""
        if self._ended:
            return "it was destroyed"
        code, said = await self._child.gone(), self._child.said()
        if self._read().oom_kills:
            return "the kernel killed it for memory"
        return said or f"the runner ended with {code}"
