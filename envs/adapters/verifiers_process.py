"""A process in verifiers' own Python, which plays rollouts for the environments of this process."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

from ...errors import EnvironmentDiedError, EnvironmentFailedError, UsageError
from ...loop_thread import LoopThread

LOOP = LoopThread("turnwise-verifiers", "environments of verifiers")
PROGRAM = Path(__file__).with_name("verifiers_child.py")
GRACE = 10.0
"""Seconds in which a process may end itself before it is killed."""
LONGEST_LINE = 1 << 28
"""Maximum number of bytes of an answer."""
LAST_BYTES = 2000
"""Bytes at the end of standard error that an error quotes from."""
_running: dict[tuple[int, str], asyncio.Future[VerifiersProcess]] = {}


class VerifiersProcess:
    """The process of one taskset with its settings; it takes any number of calls at a time."""

    description: dict[str, Any]
    """How the process describes the taskset."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.lives = True
        self._owner, self._calls = os.getpid(), itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def start(self, python: str, opening: dict[str, Any]) -> None:
        """Start it, and load the taskset."""
        path = os.pathsep.join((str(Path(python).parent), os.environ.get("PATH", "")))  # harnesses run uv
        self._folder = Path(tempfile.mkdtemp(prefix="turnwise-verifiers-"))
        atexit.register(self.stop)
        with (self._folder / "stderr").open("wb") as errors:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *(python, "-P", str(PROGRAM)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, "PATH": path},
                    limit=LONGEST_LINE,
                    start_new_session=True,  # Ctrl-C is for this process
                )
            except OSError as error:
                raise UsageError(f"cannot run {python} for verifiers: {error.strerror}") from None
        self._reader = asyncio.create_task(self._read())
        self.description = await self.ask("open", **opening)

    async def ask(self, verb: str, **arguments: Any) -> Any:
        """Call a method of the player.

        Raises:
            UsageError: the settings are wrong.
            EnvironmentFailedError: the method raised.
            EnvironmentDiedError: the process died.
        """
        if not self.lives:
            raise EnvironmentDiedError("the process of verifiers has died; reset starts a new one")
        number = next(self._calls)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # the reader reports it
            self._process.stdin.write(json.dumps([number, verb, arguments]).encode() + b"\n")
        try:
            got = await answer
        finally:
            self._waiting.pop(number, None)
        if "refused" in got:
            raise UsageError(got["refused"])
        if "failed" in got:
            raise EnvironmentFailedError(got["failed"])
        return got["value"]

    def stop(self) -> None:
        """End the process with all that it started."""
        if self.lives and self._owner == os.getpid():
            self.lives = False
            with contextlib.suppress(ProcessLookupError, AttributeError):
                os.killpg(self._process.pid, signal.SIGKILL)
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := await self._process.stdout.readline():
                number, answer = json.loads(line)
                if (waiting := self._waiting.get(number)) is not None and not waiting.done():
                    waiting.set_result(answer)
        code, last = await self._process.wait(), self._last_line()
        self.stop()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EnvironmentDiedError(f"the process of verifiers died: exit code {code}{last}"))

    def _last_line(self) -> str:
        text = ""
        with contextlib.suppress(OSError):
            text = (self._folder / "stderr").read_bytes()[-LAST_BYTES:].decode(errors="replace").strip()
        return f", {text.splitlines()[-1]}" if text else ""


async def process_for(python: str, opening: dict[str, Any]) -> VerifiersProcess:
    """Return the process of these settings, which this process starts once, in its loop for verifiers."""
    key = (os.getpid(), json.dumps([python, opening], sort_keys=True))
    found = _running.get(key)
    if found is not None and (not found.done() or (found.exception() is None and found.result().lives)):
        return await asyncio.shield(found)
    found = _running[key] = asyncio.get_running_loop().create_future()
    process = VerifiersProcess()
    try:
        await process.start(python, opening)
    except BaseException as error:
        process.stop()
        found.set_exception(error if isinstance(error, Exception) else EnvironmentDiedError("it was interrupted"))
        found.exception()  # it is raised here, too
        raise
    found.set_result(process)
    return process
