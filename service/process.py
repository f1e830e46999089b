"""Run a black-box agent's program as a child process, with limits on its output and a watchdog."""

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
from ..inference.serving.launch import watchdog

TAIL = 4096
"""Number of bytes kept from the end of standard error."""
CHUNK = 65536
LOOK = 0.1
"""Seconds between two checks whether a program has exited while another process keeps its pipes open."""


class ProgramConfig(Config):
    """A program that acts in place of an agent, once per episode."""

    command: tuple[str, ...]
    """Program and arguments, or one line as for a shell; ``{task}`` in it becomes the first observation's text."""
    timeout: float = pydantic.Field(default=600.0, gt=0)
    """Seconds for a whole episode; beyond them the episode is ``policy_failed``."""
    grace: float = pydantic.Field(default=2.0, ge=0)
    """Seconds that the program has to exit after the end of the episode."""
    max_output: int = pydantic.Field(default=1_000_000, ge=1)
    """Maximum bytes that the program may write to standard output; beyond them the episode is ``policy_failed``."""
    fixed_temperature: bool = True
    """Sample at the agent's own temperature, whatever the program requests; training needs this."""

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
    """One run of a program, created by ``start``.

    It runs in its own session under a watchdog (``inference/serving/launch/watchdog.py``). ``stop`` kills the whole
    session, and so does the end of this process, whatever its cause.
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
        """Whether the program was killed for writing too much."""

    @classmethod
    async def start(cls, words: Sequence[str], environment: Mapping[str, str], *, max_output: int) -> Self:
        """Run a program.

        Args:
            words: program and arguments.
            environment: variables to add to this process's own.
            max_output: maximum size of standard output in bytes.

        Raises:
            InfrastructureError: the machine cannot start another process.
            UsageError: the arguments are longer than the machine allows.
        """
        # -I and -S: the watchdog needs the standard library only, and starts twice as fast.
        command = [sys.executable, "-I", "-S", str(Path(watchdog.__file__)), "0", *words]
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
        """Standard output of the program."""
        return self._written.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """End of the program's standard error."""
        return self._complained.decode(errors="replace").strip()

    @property
    def pid(self) -> int:
        """Process id of the watchdog; the program is its child."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait until the program has exited and its output is read; return its exit code, above 128 for a signal."""
        code = await self._ended()
        # A process that it started and that left the session may keep the pipes open.
        await asyncio.wait(self._readers, timeout=1.0)
        return code if code >= 0 else 128 - code

    async def stop(self) -> None:
        """Kill the program and all processes that it started, if it still runs."""
        self._let_go()
        await self._ended()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def _ended(self) -> int:
        """Wait for the exit code alone; asyncio's ``wait`` also waits for the pipes (before 3.12.4)."""
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
        """Close the watchdog's standard input, upon which it kills the session; a signal may arrive too early."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _complain(self, chunk: bytes) -> None:
        self._complained += chunk
        del self._complained[:-TAIL]
