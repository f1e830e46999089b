"""A process in verifiers' own Python, which plays rollouts for the environments of this process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import tempfile
from pathlib import Path
from typing import Any, cast

from ...errors import EnvironmentDiedError, EnvironmentFailedError, UsageError
from ...loop_thread import LoopThread

LOOP = LoopThread("turnwise-verifiers", "environments of verifiers")
PROGRAM = Path(__file__).with_name("verifiers_child.py")
LONGEST_LINE = 1 << 28
"""Maximum number of bytes of an answer."""
OURS = ("PYTHONPATH", "PYTHONHOME")
"""Variables that are about this Python."""
LAST_BYTES = 2000
"""Bytes at the end of standard error that an error quotes from."""
_running: dict[tuple[int, str], asyncio.Future[VerifiersProcess]] = {}


class VerifiersProcess:
    """The process of one taskset with its settings; it takes any number of calls at a time.

    It ends when its standard input closes, at the latest with this process, after verifiers has cleaned up.
    """

    description: dict[str, Any]
    """How the process describes the taskset."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.lives = True
        self._calls = itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process

    async def start(self, python: str, folder: str | None, opening: dict[str, Any]) -> None:
        """Start it, and load the taskset; ``folder`` has tasksets that are not installed."""
        variables = {name: value for name, value in os.environ.items() if name not in OURS}
        variables["PATH"] = os.pathsep.join((str(Path(python).parent), variables.get("PATH", "")))  # harnesses run uv
        if folder is not None:
            variables["PYTHONPATH"] = folder
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(python, "-P", str(PROGRAM)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._errors,
                env=variables,
                limit=LONGEST_LINE,
                start_new_session=True,  # Ctrl-C is for this process
            )
        except OSError as error:
            self._errors.close()
            raise UsageError(f"cannot run {python} for verifiers: {error.strerror}") from None
        self._reader = asyncio.create_task(self._read())
        try:
            self.description = await self.ask("open", **opening)
        except BaseException:
            self.lives = False
            cast(asyncio.StreamWriter, self._process.stdin).close()
            raise

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
        with contextlib.suppress(OSError):  # the reader reports it
            line = json.dumps([number, verb, arguments]).encode() + b"\n"
            cast(asyncio.StreamWriter, self._process.stdin).write(line)
        try:
            got = await answer
        finally:
            self._waiting.pop(number, None)
        if "refused" in got:
            raise UsageError(got["refused"])
        if "failed" in got:
            raise EnvironmentFailedError(got["failed"])
        return got["value"]

    async def _read(self) -> None:
        answers = cast(asyncio.StreamReader, self._process.stdout)
        with contextlib.suppress(OSError, ValueError):
            while line := await answers.readline():
                number, answer = json.loads(line)
                if (waiting := self._waiting.get(number)) is not None and not waiting.done():
                    waiting.set_result(answer)
        self.lives = False
        with self._errors as errors:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - LAST_BYTES))
            last = errors.read()
        said = last.decode(errors="replace").strip().splitlines()
        problem = f"the process of verifiers died: exit code {await self._process.wait()}"
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EnvironmentDiedError(f"{problem}, {said[-1]}" if said else problem))


async def process_for(python: str, folder: str | None, opening: dict[str, Any]) -> VerifiersProcess:
    """Return the process of these settings, which this process starts once, in its loop for verifiers."""
    key = (os.getpid(), json.dumps([python, folder, opening], sort_keys=True))
    found = _running.get(key)
    if found is not None and (not found.done() or (found.exception() is None and found.result().lives)):
        return await asyncio.shield(found)
    found = _running[key] = asyncio.get_running_loop().create_future()
    process = VerifiersProcess()
    try:
        await process.start(python, folder, opening)
    except BaseException as error:
        found.set_exception(error if isinstance(error, Exception) else EnvironmentDiedError("it was interrupted"))
        found.exception()  # it is raised here, too
        raise
    found.set_result(process)
    return process
