"""Code that sends the host forbidden requests, malformed ones, and requests at the wrong time."""

from __future__ import annotations

import asyncio

from ....errors import ToolError
from ....verdicts import expect
from ...sandbox import Session
from ..case import hostile
from ..harness import Harness, ended, program, soon, works

ASKS = 50
"""Requests that are answered in a run."""
LARGEST = 256 * 1024
"""Bytes of a request."""
WAYS = (
    "garbage on every descriptor",
    "lines that are none",
    "sizes that are none",
    "more than there is",
    "files of another size",
    "a flood that nobody waits for",
    "children that ask",
    "threads that ask at once",
    "ways that are closed",
)
"""The ways to ask that the program tries, in its order."""


class Host:
    """Answers, and notes all requests with their times."""

    def __init__(self) -> None:
        self.on, self.heard, self.largest, self.late = False, 0, 0, 0

    async def answer(self, request: bytes) -> bytes:
        """Return the request reversed."""
        self.heard, self.largest = self.heard + 1, max(self.largest, len(request))
        self.late += not self.on
        return request[::-1]

    async def run(self, session: Session, source: str, what: str, timeout: float = 3.0) -> str:
        """Return the output of a run, while the host answers its allowed requests.

        Raises:
            Failed: it does not end, or has made a forbidden request.
        """
        self.on, self.heard = True, 0
        try:
            result, _ = await soon(session.run(source, timeout=timeout, answer=self.answer, asks=ASKS), what, 30.0)
        except ToolError:  # the session has ended
            expect(not session.alive, f"after {what} a session refuses, and says that it is alive")
            return ""
        finally:
            self.on = False
        expect(self.heard <= ASKS, f"{what}: {self.heard} requests were heard, {ASKS} were allowed")
        expect(self.largest <= LARGEST, f"{what}: a request of {self.largest} bytes was heard")
        return str(result.stdout.text or ended(result))


async def forged_requests(harness: Harness) -> str:
    """Code that attacks its channel to the host harms its own session at most, and asks only when it may."""
    host, states = Host(), list[str]()
    async with harness.sandbox() as sandbox:
        for number, way in enumerate(WAYS):
            session = await sandbox.session("python")
            await host.run(session, program("ask").replace("WAY", str(number)), way)
            after = await host.run(session, "print(turnwise_host.ask(b'abc'))", f"asking after {way}")
            states.append("answers" if after == "b'cba'\n" else "ended" if not session.alive else "refuses")
            if session.alive:
                alone = await host.run(session, "print(6 * 7)", f"a run after {way}")
                expect(alone == "42\n", f"after {way} a run printed {alone!r}")
            await works(sandbox)
            await session.close()
        fresh = await sandbox.session("python")
        asked = await host.run(fresh, "import turnwise_host\nprint(turnwise_host.ask(b'abc'))", "a new session")
        expect(asked == "b'cba'\n", f"afterwards, a new session that asks printed {asked!r}")
    return f"after {', '.join(f'{way}: {state}' for way, state in zip(WAYS, states, strict=True))}"


async def requests_after_the_end(harness: Harness) -> str:
    """Threads and children that a run has left ask nothing between runs, and children nothing in later ones."""
    host = Host()
    async with harness.sandbox() as sandbox:
        session = await sandbox.session("python")
        await host.run(session, program("ask").replace("WAY", "100"), "a run that leaves others behind")
        await asyncio.sleep(0.7)
        expect(host.late == 0, f"{host.late} requests were heard while nothing ran")
        await host.run(session, "import time\ntime.sleep(1)", "a run beside what an earlier one left")
        expect(host.heard == 0, f"{host.heard} requests of what an earlier run left were heard in a later one")
        asked = await host.run(session, "print(turnwise_host.ask(b'abc'))", "asking beside what was left")
        expect(asked == "b'cba'\n", f"beside what an earlier run left, a run that asks printed {asked!r}")
        await session.close()
        await works(sandbox)
    return "none heard between runs, none of an earlier run's child in a later one, and its own answers for that one"


ASKING_CASES = (
    hostile(47, forged_requests, seconds=200),
    hostile(48, requests_after_the_end),
)
"""Cases about asking the host."""
