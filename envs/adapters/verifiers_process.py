"""A process in verifiers' own Python, which plays rollouts for the environments of this process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
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
MOST_BYTES = 8_000_000
"""Bytes of standard error from which its file is emptied."""
TRY = "run `vf-eval` on one of its tasks to see what it waits for"
LIMITS = {
    "open": (300.0, f"if it downloads data first, let it do so once outside of Turnwise; otherwise {TRY}"),
    "begin": (120.0, f"the harness has not asked its model: {TRY}"),
}
"""Seconds that an answer may take, and what to do if it takes longer. What follows has the limits of a run."""
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
        self.users = set[int]()
        """Numbers of the environments that are open."""
        self._calls = itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._errors = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as the process

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
            self.stop()
            raise

    def stop(self) -> None:
        """Let it clean up and end, without waiting for it."""
        self.lives = False
        cast(asyncio.StreamWriter, self._process.stdin).close()

    async def ask(self, verb: str, **arguments: Any) -> Any:
        """Call a method of the player.

        Raises:
            UsageError: the settings are wrong.
            EnvironmentFailedError: the method raised, or took longer than its limit.
            EnvironmentDiedError: the process died.
        """
        if not self.lives:
            raise EnvironmentDiedError("the process of verifiers has died; reset starts a new one")
        self._bound_errors()
        number = next(self._calls)
        seconds, advice = LIMITS.get(verb, (None, ""))
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        with contextlib.suppress(OSError):  # the reader reports it
            line = json.dumps([number, verb, arguments]).encode() + b"\n"
            cast(asyncio.StreamWriter, self._process.stdin).write(line)
        try:
            async with asyncio.timeout(seconds):
                got = await answer
        except TimeoutError:
            raise EnvironmentFailedError(f"verifiers did not answer {verb!r} in {seconds:g} s; {advice}") from None
        finally:
            self._waiting.pop(number, None)
        if "refused" in got:
            raise UsageError(got["refused"])
        if "failed" in got:
            raise EnvironmentFailedError(got["failed"])
        return got["value"]

    async def _read(self) -> None:
        answers = cast(asyncio.StreamReader, self._process.stdout)
        problem = "the process of verifiers died"
        try:
            while line := await answers.readline():
                number, answer = json.loads(line)
                if (waiting := self._waiting.get(number)) is not None and not waiting.done():
                    waiting.set_result(answer)
        except (OSError, ValueError, TypeError) as error:  # too long, or no answer: what else it says is lost, too
            problem = f"the process of verifiers was killed, because its answer cannot be read ({error})"
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.lives = False
        with self._errors as errors:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - LAST_BYTES))
            last = errors.read()
        said = last.decode(errors="replace").strip().splitlines()
        problem = f"{problem}: exit code {await self._process.wait()}"
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EnvironmentDiedError(f"{problem}, {said[-1]}" if said else problem))

    def _bound_errors(self) -> None:
        """Empty the file of standard error if it is large; both processes write where its one position is."""
        if os.fstat(self._errors.fileno()).st_size > MOST_BYTES:
            self._errors.truncate(0)
            self._errors.seek(0)


async def process_for(python: str, folder: str | None, opening: dict[str, Any]) -> tuple[VerifiersProcess, int]:
    """Return the process of these settings, in the loop for verifiers, and the number of another environment there.

    It is started once. Starting one stops those of other settings whose environments are all closed.
    """
    process = await _started(python, folder, opening)
    number = next(process.numbers)
    process.users.add(number)
    return process, number


async def _started(python: str, folder: str | None, opening: dict[str, Any]) -> VerifiersProcess:
    key = (os.getpid(), json.dumps([python, folder, opening], sort_keys=True))
    found = _running.get(key)
    if found is not None and (not found.done() or (found.exception() is None and found.result().lives)):
        return await asyncio.shield(found)
    _stop_unused()
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


def _stop_unused() -> None:
    """Stop the processes without an open environment; an environment that is reset later starts its own again."""
    for key, found in list(_running.items()):
        if not found.done():
            continue
        if found.exception() is not None or not found.result().lives:
            del _running[key]
        elif key[0] == os.getpid() and not found.result().users:
            del _running[key]
            found.result().stop()
