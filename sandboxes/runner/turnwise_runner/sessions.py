"""Sessions inside: a shell, or a Python interpreter, that keeps its state from one run to the next.

What is to run lies in a file in memory, descriptor 7. How it went comes back on a pipe, descriptor 9, that what runs is
not given, so that no output can be taken for it. When it comes, all that was written before is in the other pipes.
"""

from __future__ import annotations

import posix
import sys
import time

from .asking import Asking
from .commands import GRACE, Kept, Stream, outcome
from .loop import FOREVER, Job, Loop
from .processes import SIGINT, SIGKILL, facts, family, read_small, signal_all
from .wire import Refused, answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SOURCE, STATUS = 7, 9
IDLE = -1
SHELL = b'command . /dev/fd/7 </dev/null 9>&-; echo "%d $?" >&9\n'
"""``command``: an error in what is run must not end the shell, as it would in a plain ``.``."""
SHELL_FIRST = b"trap 'return 130' INT\n"
"""An interruption leaves what is run, and not the shell."""
PYTHON = b"%d %s\n"
"""The number of the run, and the word with which it asks the host."""


def new_session(loop: Loop, kind: bytes, workdir: bytes, env: dict[bytes, bytes]) -> Session:
    """Start an interpreter of this kind."""
    if kind == b"sh":
        return Session(loop, [b"/bin/sh"], workdir, env)
    program = __file__.rpartition("/")[0] + "/interpreter.py"
    argv = [part.encode("utf-8", "surrogateescape") for part in (sys.executable, "-u", program)]
    return Session(loop, argv, workdir, env, Asking(loop))


class Statuses:
    """Listens to what a session announces."""

    def __init__(self, session: Session) -> None:
        self.session, self.line = session, b""

    def add(self, data: bytes) -> None:
        """Take what was announced: lines of the number of a run and its exit code."""
        *lines, self.line = (self.line + data)[-4096:].split(b"\n")
        for line in lines:
            number, _, code = line.partition(b" ")
            if code.isdigit() and number == b"%d" % self.session.turn and self.session.number != IDLE:
                self.session.done([b"exited", b"%d" % (int(code) & 255), b"0"])


class Session(Job):
    """An interpreter, and what it runs; one with ``asking`` is Python's, and without it a shell."""

    def __init__(
        self, loop: Loop, argv: list[bytes], workdir: bytes, env: dict[bytes, bytes], asking: Asking | None = None
    ) -> None:
        self.loop, self.asking, self.number, self.turn, self.alive = loop, asking, IDLE, 0, True
        self.why, self.stage, self.closing = b"", 0, IDLE
        self.source = posix.memfd_create("source", posix.MFD_CLOEXEC)
        stdin, stdout, stderr, status = [posix.pipe2(posix.O_CLOEXEC) for _ in range(4)]
        try:
            given = {0: stdin[0], 1: stdout[1], 2: stderr[1], STATUS: status[1], SOURCE: self.source}
            given.update(asking.given if asking else {})
            self.pid = loop.spawner.spawn(argv, workdir, env, given)
        except BaseException:
            for end in (stdin[1], stdout[0], stderr[0], status[0], self.source):
                posix.close(end)
            if asking:
                asking.close()
            raise
        finally:
            for end in (stdin[0], stdout[1], stderr[1], status[1]):
                posix.close(end)
            if asking:
                asking.started()
        self.control, self.statuses = stdin[1], Stream(loop, status[0], Statuses(self))
        self.kept = Kept(1 << 16), Kept(1 << 16)
        self.streams = Stream(loop, stdout[0], self.kept[0]), Stream(loop, stderr[0], self.kept[1])
        if asking is None:
            posix.write(self.control, SHELL_FIRST)

    def run(self, number: int, fields: list[bytes]) -> None:
        """Begin to run a source.

        Raises:
            Refused: it has ended, or still runs the last one.
        """
        if not self.alive or self.number != IDLE:
            raise Refused("the session has ended" if not self.alive else "the session is still running something")
        timeout, keep, asks, source = fields
        self.number, self.turn, self.why, self.stage = number, self.turn + 1, b"", 0
        posix.ftruncate(self.source, 0)
        written = 0
        while written < len(source):
            written += posix.pwrite(self.source, source[written:], written)
        self.keep(int(keep))
        self.began, self.spent = time.monotonic(), cpu_seconds(self.pid)
        self.deadline = self.began + int(timeout) / 1000
        order = PYTHON % (self.turn, self.asking.begin(number, int(asks))) if self.asking else SHELL % self.turn
        try:
            posix.write(self.control, order)
        except BrokenPipeError:  # it has just ended; we are about to hear of it
            pass

    def keep(self, most: int) -> None:
        """From now on keep this much; what came since the last run belongs to the next."""
        before, self.kept = self.kept, (Kept(most), Kept(most))
        for stream, kept, old in zip(self.streams, self.kept, before):
            kept.add(bytes(old.head + old.tail))
            stream.sink = kept

    def expire(self) -> None:
        """Interrupt what runs; then kill what it waits for; then end the session."""
        if self.asking:
            self.asking.end()
        self.why = self.why or b"timeout"
        self.stage += 1
        self.deadline = time.monotonic() + GRACE
        if self.stage == 1:
            try:
                posix.killpg(self.pid, SIGINT)
            except OSError:
                pass
        elif self.stage == 2:
            signal_all(family(self.pid, sessions=True), SIGKILL)
            signal_all({self.pid}, SIGINT)
        else:
            self.loop.strike(self.pid)

    def done(self, how: list[bytes], usage: Any = None) -> None:
        """Answer who asked for the run."""
        if self.asking:
            self.asking.end()
        seconds = time.monotonic() - self.began
        for stream in self.streams:
            stream.drain()
        spent = cpu_seconds(self.pid) if usage is None else usage.ru_utime + usage.ru_stime
        peak = peak_memory(self.pid) if usage is None else usage.ru_maxrss * 1024
        how = [self.why, *how[1:]] if self.why else how
        used = [b"%.6f" % seconds, b"%.6f" % max(0.0, spent - self.spent), b"%d" % peak]
        number, self.number, self.deadline = self.number, IDLE, FOREVER
        answer(number, [*how, *used, *self.kept[0].fields(), *self.kept[1].fields(), b"%d" % self.alive])
        self.kept = Kept(1 << 16), Kept(1 << 16)
        for stream, kept in zip(self.streams, self.kept):
            stream.sink = kept

    def close(self, number: int) -> None:
        """End it, and answer when it has ended."""
        if not self.alive:
            answer(number, [])
            return
        self.closing = number
        self.loop.strike(self.pid)
        self.deadline, self.stage, self.why = time.monotonic() + GRACE, 2, b"cancelled"

    def ended(self, status: int, usage: Any) -> None:
        """The interpreter has ended."""
        self.alive = False
        self.loop.sweep(self.pid)
        if self.number != IDLE:
            self.done(outcome(status), usage)
        for stream in (*self.streams, self.statuses):
            stream.close()
        posix.close(self.control)
        posix.close(self.source)
        if self.asking:
            self.asking.close()
        if self.closing != IDLE:
            answer(self.closing, [])


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and of the children that it waited for."""
    known = facts(pid)
    return sum(int(ticks) for ticks in known[11:15]) / posix.sysconf("SC_CLK_TCK") if known else 0.0


def peak_memory(pid: int) -> int:
    """The largest resident set that a process has had, in bytes."""
    _, _, rest = read_small(f"/proc/{pid}/status").partition(b"VmHWM:")
    number = rest.split()[:1]
    return int(number[0]) * 1024 if number else 0
