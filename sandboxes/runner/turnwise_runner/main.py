"""The first process of every sandbox: it runs commands and moves files for the host at its standard input and output.

This folder stands alone, needs a Python of 3.8 or later without its site, and imports almost nothing, so that it
starts in a few milliseconds. The host must not trust its messages, since hostile code runs beside it.
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
"""Seconds that the host has to end the sandbox itself."""


class Runner:
    """The settings of this sandbox, and its pending requests."""

    def __init__(self) -> None:
        self.loop, self.incoming = Loop(), Incoming()
        self.commands: dict[int, Command] = {}
        self.sessions: dict[int, Session] = {}
        self.workdir, self.env = b"/", as_environment([])
        self.ends_at = FOREVER
        self.loop.watch(0, self.read, reading=True)

    def read(self) -> None:
        """Read from the host; when the host has ended, end everything."""
        data = posix.read(0, PIECE)
        if not data:
            kill_everything()
            posix._exit(0)
        for number, fields in self.incoming.feed(data):
            try:
                self.handle(number, fields)
            except Refused as refused:
                refuse(number, str(refused))
            except OSError as error:  # no descriptors or no memory left for another process
                refuse(number, f"the sandbox cannot do that now: {posix.strerror(error.errno or 0)}")

    def handle(self, number: int, fields: list[bytes]) -> None:
        """Handle a request, or start to."""
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
            from . import files  # the first command does not need it

            files.handle(self.workdir, number, verb, rest)

    def cancel(self, number: int) -> None:
        """Stop a request that the host has abandoned; one that has ended has answered already."""
        running = [session for session in self.sessions.values() if session.number == number]
        for job in [self.commands[number]] if number in self.commands else running:
            job.expire()

    def answer(self, number: int, how: bytes, body: bytes) -> None:
        """Pass the host's answer to the code that asked; code that has ended does not get it."""
        for session in self.sessions.values():
            if session.number == number and session.asking:
                session.asking.answer(number, how, body)

    def begin(self, number: int, fields: list[bytes]) -> None:
        """Take the settings: the working directory, the lifetime, and the environment of every command."""
        self.workdir, lifetime, *env = fields
        self.env = as_environment(env)
        lasts = int(lifetime) / 1000 + LIFETIME_GRACE
        self.ends_at = time.monotonic() + lasts
        on_signal(SIGALRM, self.alarm)
        alarm_after(lasts)
        posix.chdir(self.workdir)
        answer(number, [b"1", b"%d" % posix.getpid()])

    def alarm(self, *_: object) -> None:
        """End if it is time; any process inside can send this signal."""
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
    """Serve until the host has ended or the lifetime has passed."""
    reserve()
    runner = Runner()
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in (SIGINT, SIGPIPE, SIGTERM):
        on_signal(number, ignored)
    while True:
        runner.loop.turn()
