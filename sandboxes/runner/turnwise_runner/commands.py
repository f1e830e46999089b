"""Commands inside: started, fed, listened to, ended in time, and reported with no more output than was asked for."""

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
        """What takes what a program writes."""

        def add(self, data: bytes) -> None:
            """Take it."""


DRAINED = 1 << 20
"""Bytes that are still taken from a stream after its command has ended, while others hold it."""
GRACE = 1.0
"""Seconds between the ways of ending what does not end."""


class Kept:
    """The beginning and the end of a stream; what lies between is counted and dropped, so that no flood crosses."""

    def __init__(self, most: int) -> None:
        self.front, self.back = most - most // 2, most // 2
        self.head, self.tail, self.size = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take what was written."""
        room = self.front - len(self.head)
        self.size += len(data)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > self.back + PIECE:
            del self.tail[: len(self.tail) - self.back]

    def fields(self) -> list[bytes]:
        """The beginning, the end, and how much is missing between them."""
        tail = bytes(self.tail[max(0, len(self.tail) - self.back) :])
        return [bytes(self.head), tail, b"%d" % (self.size - len(self.head) - len(tail))]


class Stream:
    """The reading end of a pipe, and who takes what comes."""

    def __init__(self, loop: Loop, descriptor: int, sink: Sink) -> None:
        self.loop, self.descriptor, self.sink = loop, descriptor, sink
        posix.set_blocking(descriptor, False)
        loop.watch(descriptor, self.read, reading=True)

    def read(self) -> int:
        """Take what is there, and say how much it was."""
        try:
            data = posix.read(self.descriptor, PIECE)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
        self.sink.add(data)
        return len(data)

    def drain(self) -> None:
        """Take what was written before now."""
        taken = 0
        while self.descriptor >= 0 and taken < DRAINED:
            size = self.read()
            if not size:
                return
            taken += size

    def close(self) -> None:
        """Let go of it."""
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
        """Give what it takes."""
        try:
            while self.rest:
                self.rest = self.rest[posix.write(self.descriptor, self.rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        self.close()

    def close(self) -> None:
        """End it."""
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
        """Its time is over: kill it, and all that it started as far as that can be seen."""
        self.why = b"timeout"
        self.deadline = time.monotonic() + GRACE  # again, should it still be there
        self.loop.strike(self.pid)

    def ended(self, status: int, usage: Any) -> None:
        """It has ended: kill what it left, and answer."""
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
    """How a process ended, as ``wait`` tells it: a word, its exit code, and the signal that ended it or 0."""
    if posix.WIFSIGNALED(status):
        return [b"signaled", b"%d" % (128 + posix.WTERMSIG(status)), b"%d" % posix.WTERMSIG(status)]
    return [b"exited", b"%d" % posix.WEXITSTATUS(status), b"0"]


def as_environment(pairs: list[bytes]) -> dict[bytes, bytes]:
    """Variables from words such as ``NAME=value``."""
    variables = {}
    for pair in pairs:
        name, _, value = pair.partition(b"=")
        variables[name] = value
    return variables
