"""The event loop of the runner: descriptors to wait for, deadlines of processes, and handlers of their end."""

from __future__ import annotations

import posix
import select
import time

from .processes import (
    SIGKILL,
    Spawner,
    family,
    ignored,
    kill_everything,
    kill_family,
    on_signal,
    signal_all,
    wake_up_on_signals,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SIGCHLD = 17
FOREVER = float("inf")


class Job:
    """A requested process, which ends by itself or at its deadline."""

    pid: int
    deadline: float = FOREVER

    def expire(self) -> None:
        """Handle the deadline."""
        raise NotImplementedError

    def ended(self, status: int, usage: Any) -> None:
        """Handle the end, with the status and resource usage of ``wait``."""
        raise NotImplementedError


class Loop:
    """The descriptors and processes to wait for."""

    def __init__(self) -> None:
        self.poll = select.poll()
        self.ready: dict[int, Callable[[], Any]] = {}
        self.jobs: dict[int, Job] = {}
        self.spawner = Spawner()
        noticed, notice = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        on_signal(SIGCHLD, ignored)
        wake_up_on_signals(notice)
        self.watch(noticed, lambda: self._reap(noticed), reading=True)

    def watch(self, descriptor: int, ready: Callable[[], Any], *, reading: bool) -> None:
        """Call ``ready`` whenever a descriptor can be read, or written."""
        self.ready[descriptor] = ready
        self.poll.register(descriptor, select.POLLIN if reading else select.POLLOUT)

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor."""
        del self.ready[descriptor]
        self.poll.unregister(descriptor)

    def turn(self) -> None:
        """Wait until something happens, and handle it."""
        now = time.monotonic()
        soonest = min((job.deadline for job in self.jobs.values()), default=FOREVER)
        wait = None if soonest == FOREVER else max(0, int((soonest - now) * 1000) + 1)
        for descriptor, _ in self.poll.poll(wait):
            if descriptor in self.ready:  # an earlier handler of this turn may have closed it
                self.ready[descriptor]()
        now = time.monotonic()
        for job in list(self.jobs.values()):
            if job.deadline <= now:
                job.expire()

    def strike(self, pid: int) -> None:
        """Kill the process of a job and all visible descendants, without waiting."""
        if len(self.jobs) > 1:
            signal_all(family(pid, sessions=True) | {pid}, SIGKILL)
        elif posix.getpid() == 1:
            signal_all({-1}, SIGKILL)
        else:
            signal_all(family(posix.getpid(), sessions=False), SIGKILL)

    def sweep(self, pid: int) -> None:
        """Kill the leftovers of a job whose process has ended; everything, if there is no other job."""
        self.jobs.pop(pid, None)
        if self.jobs:
            kill_family(pid)
        else:
            kill_everything()

    def _reap(self, noticed: int) -> None:
        posix.read(noticed, 4096)
        while True:
            try:
                pid, status, usage = posix.wait4(-1, posix.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self.jobs:
                self.jobs[pid].ended(status, usage)
