"""A black-box agent's program as a child process: on a leash, with limits on what it may write."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pydantic

from ..config import Config
from ..errors import InfrastructureError, UsageError
from ..inference.serving.launch import leash

TAIL = 4096
"""Bytes of standard error that are kept."""
CHUNK = 65536
LOOK = 0.1
"""Seconds between two looks at whether a program has ended while something else holds its pipes."""


class ProgramConfig(Config):
    """A program that acts in an agent's place, once per episode."""

    command: tuple[str, ...]
    """Program and arguments, or one line as for a shell; ``{task}`` in it becomes the first observation's text."""
    timeout: float = pydantic.Field(default=600.0, gt=0)
    """Seconds that it has for a whole episode; beyond them the episode is ``policy_failed``."""
    grace: float = pydantic.Field(default=2.0, ge=0)
    """Seconds that it has to end by itself once the episode is over."""
    max_output: int = pydantic.Field(default=1_000_000, ge=1)
    """Bytes that it may write to standard output; beyond them the episode is ``policy_failed``."""
    fixed_temperature: bool = True
    """Sample at the agent's own temperature whatever the program asks for, as training needs it."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _command_alone(cls, given: Any) -> Any:
        return given if isinstance(given, Mapping | ProgramConfig) else {"command": given}

    @pydantic.field_validator("command", mode="before")
    @classmethod
    def _one_line(cls, given: Any) -> Any:
        return shlex.split(given) if isinstance(given, str) else given

    @pydantic.field_validator("command")
    @classmethod
    def _there(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if not words:
            raise ValueError("the command names no program")
        if shutil.which(words[0]) is None:
            raise ValueError(f"there is no executable program {words[0]!r} on this machine")
        return words


class Process:
    """One run of a program; made by ``start``.

    It runs in a session of its own, on a leash (``inference/serving/launch/leash.py``): with ``stop``, and when this
    process is gone, however it went, the whole session is killed.
    """

    def __init__(self, process: asyncio.subprocess.Process, max_output: int) -> None:
        self._process = process
        self._max_output = max_output
        self._written, self._complained = bytearray(), bytearray()
        assert process.stdout is not None
        assert process.stderr is not None
        reading = (self._read(process.stdout, self._wrote), self._read(process.stderr, self._complain))
        self._readers = [asyncio.ensure_future(each) for each in reading]
        self.flooded = False
        """It wrote more than it may, and was killed for it."""

    @classmethod
    async def start(cls, words: Sequence[str], environment: Mapping[str, str], *, max_output: int) -> Self:
        """Run a program.

        Args:
            words: program and arguments.
            environment: variables beside this process's own.
            max_output: bytes.

        Raises:
            InfrastructureError: the machine cannot start another process.
            UsageError: the arguments are more than the machine can pass on.
        """
        # -I and -S: the leash needs the standard library only, and starts twice as fast.
        command = [sys.executable, "-I", "-S", str(Path(leash.__file__)), "0", *words]
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except ValueError as error:
            raise UsageError(f"program {words[0]!r} cannot take these arguments: {error}") from None
        except OSError as error:
            raise InfrastructureError(f"program {words[0]!r} could not be started: {error}") from None
        return cls(process, max_output)

    @property
    def output(self) -> str:
        """What it wrote to standard output."""
        return self._written.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """The end of what it wrote to standard error."""
        return self._complained.decode(errors="replace").strip()

    @property
    def pid(self) -> int:
        """Of the leash; the program is its child."""
        return self._process.pid

    async def wait(self) -> int:
        """Its exit code, once it has ended and all that it wrote was read; over 128 for the signal that ended it."""
        code = await self._ended()
        # Something that it started and that left its session may still hold the pipes.
        await asyncio.wait(self._readers, timeout=1.0)
        return code if code >= 0 else 128 - code

    async def stop(self) -> None:
        """Kill it and all that it started, if it still runs."""
        self._let_go()
        await self._ended()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def _ended(self) -> int:
        """Its exit code; asyncio's ``wait`` is for the pipes too (before 3.12.4), which others may hold for ever."""
        waiting = asyncio.ensure_future(self._process.wait())
        try:
            while self._process.returncode is None:
                await asyncio.wait((waiting,), timeout=LOOK)
        finally:
            waiting.cancel()
        return self._process.returncode

    async def _read(self, stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
        while chunk := await stream.read(CHUNK):
            take(chunk)

    def _wrote(self, chunk: bytes) -> None:
        self._written += chunk[: max(0, self._max_output - len(self._written))]
        if len(self._written) >= self._max_output and not self.flooded:
            self.flooded = True
            self._let_go()

    def _let_go(self) -> None:
        """Let the leash see its standard input end, upon which it kills the session; a signal may come too early."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _complain(self, chunk: bytes) -> None:
        self._complained += chunk
        del self._complained[:-TAIL]
