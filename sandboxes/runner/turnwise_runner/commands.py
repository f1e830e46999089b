"""Commands inside: start them, write their input, read their output, end them in time, and report the result."""

from __future__ import annotations

import posix
import time

from .loop import Job, Loop
from .wire import PIECE, answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Sink(Protocol):
        """A consumer of a program's output."""

        def add(self, data: bytes) -> None:
            """Take some output."""


DRAINED = 1 << 20
"""Bytes still read from a stream after its command has ended, if other processes have it open."""
GRACE = 1.0
"""Seconds between two stronger ways of ending a process."""


class Kept:
    """The beginning and the end of a stream; the middle is counted and dropped, so that no flood passes."""

    def __init__(self, most: int) -> None:
        self.front, self.back = most - most // 2, most // 2
        self.head, self.tail, self.size = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take some output."""
        room = self.front - len(self.head)
        self.size += len(data)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > self.back + PIECE:
            del self.tail[: len(self.tail) - self.back]

    def fields(self) -> list[bytes]:
        """Return the beginning, the end, and the number of bytes missing between them."""
        tail = bytes(self.tail[max(0, len(self.tail) - self.back) :])
        return [bytes(self.head), tail, b"%d" % (self.size - len(self.head) - len(tail))]


class Stream:
    """The reading end of a pipe, and the consumer of its data."""

    def __init__(self, loop: Loop, descriptor: int, sink: Sink) -> None:
        self.loop, self.descriptor, self.sink = loop, descriptor, sink
        posix.set_blocking(descriptor, False)
        loop.watch(descriptor, self.read, reading=True)

    def read(self) -> int:
        """Read the available data, and return their size."""
        try:
            data = posix.read(self.descriptor, PIECE)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
        self.sink.add(data)
        return len(data)

    def drain(self) -> None:
        """Read everything written before now."""
        taken = 0
        while self.descriptor >= 0 and taken < DRAINED:
            size = self.read()
            if not size:
                return
            taken += size

    def close(self) -> None:
        """Close the pipe."""
        if self.descriptor >= 0:
            self.loop.unwatch(self.descriptor)
            posix.close(self.descriptor)
            self.descriptor = -1


class Feed:
    """The writing end of a program's standard input."""

    def __init__(self, loop: Loop, descriptor: int, data: bytes) -> None:
        self.loop, self.descriptor, self.rest = loop, descriptor, memoryview(data)
        posix.set_blocking(descriptor, False)
        loop.watch(descriptor, self.write, reading=False)
        self.write()

    def write(self) -> None:
        """Write as much as the pipe takes."""
        try:
            while self.rest:
                self.rest = self.rest[posix.write(self.descriptor, self.rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self.close()

    def close(self) -> None:
        """Close the pipe."""
        if self.descriptor >= 0:
            self.loop.unwatch(self.descriptor)
            posix.close(self.descriptor)
            self.descriptor = -1


class Command(Job):
    """One command: a program that runs from a request to its answer."""

    def __init__(
        self, loop: Loop, number: int, fields: list[bytes], base: dict[bytes, bytes], forget: Callable[[int], Any]
    ) -> None:
        timeout, keep, cwd, stdin, count, *rest = fields
        argv, more = rest[: int(count)], rest[int(count) :]
        self.loop, self.number, self.forget, self.why = loop, number, forget, b""
        env = {**base, **as_environment(more)}
        ends = [posix.pipe2(posix.O_CLOEXEC) for _ in range(3)]
        given = {0: ends[0][0], 1: ends[1][1], 2: ends[2][1]}
        self.started = time.monotonic()
        try:
            self.pid = loop.spawner.spawn(argv, cwd, env, given)
        except BaseException:
            for end in (ends[0][1], ends[1][0], ends[2][0]):
                posix.close(end)
            raise
        finally:
            for end in given.values():
                posix.close(end)
        self.deadline = self.started + int(timeout) / 1000
        self.kept = Kept(int(keep)), Kept(int(keep))
        self.streams = Stream(loop, ends[1][0], self.kept[0]), Stream(loop, ends[2][0], self.kept[1])
        self.feed = Feed(loop, ends[0][1], stdin)

    def expire(self) -> None:
        """Handle its timeout: kill it, and all visible descendants."""
        self.why = b"timeout"
        self.deadline = time.monotonic() + GRACE  # try again if it still runs
        self.loop.strike(self.pid)

    def ended(self, status: int, usage: Any) -> None:
        """Handle its end: kill its leftovers, and answer."""
        seconds = time.monotonic() - self.started
        self.forget(self.number)
        self.loop.sweep(self.pid)
        self.feed.close()
        for stream in self.streams:
            stream.drain()
            stream.close()
        used = [b"%.6f" % seconds, b"%.6f" % (usage.ru_utime + usage.ru_stime), b"%d" % (usage.ru_maxrss * 1024)]
        how = outcome(status)
        how[0] = self.why or how[0]
        answer(self.number, [*how, *used, *self.kept[0].fields(), *self.kept[1].fields(), b"0"])


def outcome(status: int) -> list[bytes]:
    """Encode how a process ended from the status of ``wait``: a word, its exit code, and its signal or 0."""
    if posix.WIFSIGNALED(status):
        return [b"signaled", b"%d" % (128 + posix.WTERMSIG(status)), b"%d" % posix.WTERMSIG(status)]
    return [b"exited", b"%d" % posix.WEXITSTATUS(status), b"0"]


def as_environment(pairs: list[bytes]) -> dict[bytes, bytes]:
    """Return variables from words such as ``NAME=value``."""
    variables = {}
    for pair in pairs:
        name, _, value = pair.partition(b"=")
        variables[name] = value
    return variables
