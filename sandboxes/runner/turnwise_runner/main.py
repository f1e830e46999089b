"""The first process of every sandbox: it runs commands and moves files for whoever holds its standard input and output.

This folder stands alone, needs a Python of 3.8 or later without its site, and imports next to nothing, so that it
starts in a few milliseconds. The host must not trust what it says: what runs beside it is hostile.
"""

from __future__ import annotations

import posix
import time

from .commands import Command, as_environment
from .loop import FOREVER, Loop
from .processes import PR_SET_DUMPABLE, alarm_after, ignored, kill_everything, on_signal, prctl, reserve
from .sessions import Session, new_session
from .wire import PIECE, Incoming, Refused, answer, refuse

PR_SET_CHILD_SUBREAPER = 36
SIGINT, SIGPIPE, SIGALRM, SIGTERM = 2, 13, 14, 15
LIFETIME_GRACE = 5.0
"""Seconds that the host is given to end the sandbox itself."""


class Runner:
    """What this sandbox is, and what was asked of it."""

    def __init__(self) -> None:
        self.loop, self.incoming = Loop(), Incoming()
        self.commands: dict[int, Command] = {}
        self.sessions: dict[int, Session] = {}
        self.workdir, self.env = b"/", as_environment([])
        self.ends_at = FOREVER
        self.loop.watch(0, self.read, reading=True)

    def read(self) -> None:
        """Hear the host; when it is gone, so is all that runs here."""
        data = posix.read(0, PIECE)
        if not data:
            kill_everything()
            posix._exit(0)
        for number, fields in self.incoming.feed(data):
            try:
                self.handle(number, fields)
            except Refused as refused:
                refuse(number, str(refused))
            except OSError as error:  # no descriptors or no memory left for one more
                refuse(number, f"the sandbox cannot do that now: {posix.strerror(error.errno or 0)}")

    def handle(self, number: int, fields: list[bytes]) -> None:
        """Do what is asked, or begin it."""
        verb, *rest = fields
        if verb == b"exec":
            rest[2] = rest[2] if rest[2].startswith(b"/") else self.workdir + b"/" + rest[2]
            command = Command(self.loop, number, rest, self.env, self.commands.pop)
            self.loop.jobs[command.pid] = command
            self.commands[number] = command
        elif verb == b"cancel":
            self.cancel(int(rest[0]))
            answer(number, [])
        elif verb == b"answer":
            self.answer(int(rest[0]), rest[1], rest[2])
            answer(number, [])
        elif verb in (b"open", b"run", b"close"):
            self.session(verb, number, rest)
        elif verb == b"begin":
            self.begin(number, rest)
        else:
            from . import files  # it is not needed before the first command

            files.handle(self.workdir, number, verb, rest)

    def cancel(self, number: int) -> None:
        """Nobody waits for this any more; who no longer runs has answered already."""
        running = [session for session in self.sessions.values() if session.number == number]
        for job in [self.commands[number]] if number in self.commands else running:
            job.expire()

    def answer(self, number: int, how: bytes, body: bytes) -> None:
        """The host answers what was asked in this run; who no longer runs does not hear it."""
        for session in self.sessions.values():
            if session.number == number and session.asking:
                session.asking.answer(number, how, body)

    def begin(self, number: int, fields: list[bytes]) -> None:
        """Learn where files lie, how long this lasts, and what is in the environment of every command."""
        self.workdir, lifetime, *env = fields
        self.env = as_environment(env)
        lasts = int(lifetime) / 1000 + LIFETIME_GRACE
        self.ends_at = time.monotonic() + lasts
        on_signal(SIGALRM, self.alarm)
        alarm_after(lasts)
        posix.chdir(self.workdir)
        answer(number, [b"1", b"%d" % posix.getpid()])

    def alarm(self, *_: object) -> None:
        """End if it is time; anyone in here can send this signal."""
        left = self.ends_at - time.monotonic()
        if left <= 0:
            kill_everything()
            posix._exit(0)
        alarm_after(left)

    def session(self, verb: bytes, number: int, fields: list[bytes]) -> None:
        """Open a session under the number of its request, run something in it, or end it."""
        if verb == b"open":
            opened = new_session(self.loop, fields[0], self.workdir, self.env)
            self.loop.jobs[opened.pid] = opened
            self.sessions[number] = opened
            answer(number, [])
            return
        session = self.sessions.get(int(fields[0]))
        if session is None:
            raise Refused("the session has ended")
        if verb == b"run":
            session.run(number, fields[1:])
        else:
            session.close(number)
            del self.sessions[int(fields[0])]


def main() -> None:
    """Serve until the host is gone or the time is over."""
    reserve()
    runner = Runner()
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in (SIGINT, SIGPIPE, SIGTERM):
        on_signal(number, ignored)
    while True:
        runner.loop.turn()
