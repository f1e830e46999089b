"""Requests of a Python session to the host while it runs code: one at a time, and none at other times.

A request is in a file in memory, descriptor 3, and its answer in another, descriptor 4. Lines on two pipes, 5 and 6,
announce them, each with a line break before and after it. So an incomplete line damages no other, and the runner never
has to wait. Each request contains a secret word that is new in every run. A process left over from an earlier run does
not know the word, so its requests are ignored. It can still write into the files, and so damage what its own session
asks and hears.
"""

from __future__ import annotations

import posix

from .commands import Stream
from .wire import ASKED, PIECE, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .loop import Loop

REQUEST, ANSWER, QUESTIONS, ANSWERS = 3, 4, 5, 6
NOBODY = -1
NOT_NOW = b"nothing is running for which the host answers"


class Asking:
    """Both directions between a session and the host."""

    def __init__(self, loop: Loop) -> None:
        self.number, self.asked, self.left, self.word = NOBODY, NOBODY, 0, b""
        self.line = b""
        self.request = posix.memfd_create("request", posix.MFD_CLOEXEC)
        self.answered = posix.memfd_create("answer", posix.MFD_CLOEXEC)
        questions, answers = posix.pipe2(posix.O_CLOEXEC), posix.pipe2(posix.O_CLOEXEC)
        posix.set_blocking(answers[1], False)
        self.lines, self.theirs = answers[1], (questions[1], answers[0])
        self.given = {REQUEST: self.request, ANSWER: self.answered, QUESTIONS: questions[1], ANSWERS: answers[0]}
        self.stream = Stream(loop, questions[0], self)

    def started(self) -> None:
        """Close this side's copies of the descriptors, after the session has started."""
        for end in self.theirs:
            posix.close(end)

    def begin(self, number: int, most: int) -> bytes:
        """Start a run with so many allowed requests; return the word that they must contain."""
        self.stream.drain()
        self.number, self.left, self.asked = number if most else NOBODY, most, NOBODY
        self.word, self.line = posix.urandom(8).hex().encode(), b""
        return self.word

    def end(self) -> None:
        """End the run, at its end or timeout; pending requests are refused."""
        if self.asked != NOBODY:
            self.reply(b"0", NOT_NOW)
        self.number = NOBODY

    def add(self, data: bytes) -> None:
        """Read lines, each with a word, the number of a request, and its size."""
        *lines, self.line = (self.line + data)[-4096:].split(b"\n")
        for line in lines:
            word, *numbers = line.split(b" ")
            if word == self.word and len(numbers) == 2 and all(n.isdigit() and len(n) < 10 for n in numbers):
                self.ask(*map(int, numbers))

    def ask(self, which: int, size: int) -> None:
        """Pass a request on to the host, or refuse it."""
        if self.asked != NOBODY:
            self.tell(which, b"0", b"the last request is not answered yet")
            return
        self.asked = which
        if self.number == NOBODY:
            self.reply(b"0", NOT_NOW)
        elif self.left <= 0:
            self.reply(b"0", b"no more requests are answered in this run")
        elif size > PIECE:
            self.reply(b"0", b"a request has at most %d bytes" % PIECE)
        else:
            self.left -= 1
            send(self.number, ASKED, posix.pread(self.request, size, 0))

    def answer(self, number: int, how: bytes, body: bytes) -> None:
        """Take the host's answer to a request of a run, which may have ended."""
        if number == self.number and self.asked != NOBODY:
            self.reply(how, body)

    def reply(self, how: bytes, body: bytes) -> None:
        """Answer a request."""
        which, self.asked = self.asked, NOBODY
        self.tell(which, how, body)

    def tell(self, which: int, how: bytes, body: bytes) -> None:
        """Write an answer and announce it; a session that has closed or filled the pipe does not get it."""
        try:
            posix.ftruncate(self.answered, 0)
            written = 0
            while written < len(body):
                written += posix.pwrite(self.answered, body[written:], written)
            posix.write(self.lines, b"\n%s %d %s %d\n" % (self.word, which, how, len(body)))
        except OSError:
            pass

    def close(self) -> None:
        """Close everything."""
        self.stream.close()
        for descriptor in (self.request, self.answered, self.lines):
            posix.close(descriptor)
