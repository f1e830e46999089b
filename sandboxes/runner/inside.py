"""``RunnerSandbox``: a sandbox with the runner inside; the same for every backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from ...errors import SandboxError, ToolError, UsageError
from ..loop import LOOP, handed_over
from ..result import ExecResult, FileInfo, Stats
from ..sandbox import Command, Sandbox, Session, SessionKind
from ..snapshot import Snapshot
from ..spec import SandboxSpec
from . import archives
from .channel import Asks, Channel
from .files import entries_of, listed
from .results import OVERHEAD, died_of_memory, keep_of, killed_for_memory, milliseconds, out_of_memory, result_of, words
from .runner_process import RunnerProcess
from .session import RunnerSession

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
"""Environment of every command, beside ``HOME`` and the variables of the spec."""
Another = Callable[[SandboxSpec], Awaitable["RunnerSandbox"]]


class RunnerSandbox(Sandbox):
    """Talks to a runner.

    Args:
        process: a started runner, confined by its backend.
        spec: specification of the sandbox.
        another: function that makes an empty sandbox.
        workdir: path of the working directory inside.
    """

    def __init__(self, process: RunnerProcess, spec: SandboxSpec, another: Another, workdir: str) -> None:
        self.id, self.spec = process.id, spec
        self._process, self._another, self._workdir = process, another, workdir
        self._channel = Channel(process)
        self._lifetime = asyncio.get_running_loop().call_later(spec.limits.lifetime, self._expire)
        self._busy = 0

    @property
    def alive(self) -> bool:
        return self._channel.alive

    async def begin(self) -> None:
        """Send the runner its settings; on the sandboxes' loop.

        Raises:
            SandboxError: it does not answer.
        """
        env = {**ENVIRONMENT, "HOME": self._workdir, **self.spec.env, **self._process.env}
        lifetime = milliseconds(self.spec.limits.lifetime)
        pairs = words([f"{name}={value}" for name, value in env.items()])
        await self._channel.ask(b"begin", *words([self._workdir]), lifetime, *pairs)

    async def exec(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        output: int | None = None,
    ) -> ExecResult:
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        pairs = [f"{name}={value}" for name, value in {**(env or {}), **self._process.env}.items()]
        if not argv or any("\0" in word for word in (*argv, *pairs, cwd or "")):
            raise ToolError("a command needs a program, and none of its words can hold a NUL character")
        keep = keep_of(output, self.spec.limits.output)
        place, *arguments = words([cwd or ".", *argv])
        request = [milliseconds(timeout), b"%d" % keep, place, stdin, b"%d" % len(argv), *arguments, *words(pairs)]
        result, _ = await LOOP.run(self._run(b"exec", request, timeout, keep))
        return result

    async def session(self, kind: SessionKind = "sh") -> Session:
        number = await LOOP.run(self._channel.opened(b"open", kind.encode()))
        return RunnerSession(kind, number, self._channel, self._run, self.spec.limits.output)

    async def write_files(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        await LOOP.run(self.put(entries_of(files, executable=executable)))

    async def read_file(self, path: str, *, limit: int = 1024 * 1024) -> bytes:
        return await LOOP.run(self._channel.ask(b"read", *words([path]), b"%d" % limit, most=limit))

    async def list_files(self, path: str = ".", *, limit: int = 10_000) -> tuple[FileInfo, ...]:
        room = limit * archives.ROOM
        request = b"list", *words([path]), b"%d" % limit, b"%d" % room
        return listed(await LOOP.run(self._channel.ask(*request, most=room)))

    async def remove(self, paths: Sequence[str]) -> None:
        await LOOP.run(self._channel.ask(b"remove", *words(paths)))

    async def snapshot(self) -> Snapshot:
        return archives.archived(await LOOP.run(self._entries()))

    async def fork(self, n: int = 1) -> list[Sandbox]:
        async def end(forks: list[Sandbox]) -> None:
            await asyncio.gather(*(each.destroy() for each in forks))

        return await handed_over(lambda: self._fork(n), end)

    async def _fork(self, n: int) -> list[Sandbox]:
        """Make the forks while the files are read, and then put these into each."""
        tasks = [asyncio.ensure_future(self._another(self.spec)) for _ in range(n)]
        try:
            entries = await self._entries()
            forks = await asyncio.gather(*tasks)
            await asyncio.gather(*(fork.put(entries) for fork in forks))
        except BaseException as error:
            made = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(one.destroy() for one in made if isinstance(one, RunnerSandbox)))
            if isinstance(error, ToolError | UsageError):
                raise SandboxError(f"cannot create a fork: {error}") from error
            raise
        return list(forks)

    async def _entries(self) -> list[archives.Entry]:
        limits = self.spec.limits
        room = limits.inodes * archives.ROOM
        request = b"snapshot", b"%d" % limits.disk, b"%d" % limits.inodes, b"%d" % room
        return archives.entries_of_answer(await self._channel.ask(*request, most=limits.disk + room))

    async def stats(self) -> Stats:
        return await LOOP.run(self._process.stats())

    async def destroy(self) -> None:
        await LOOP.run(self._end("the sandbox was destroyed"))

    async def _end(self, why: str) -> None:
        self._lifetime.cancel()
        await self._channel.end(why)

    def _expire(self) -> None:
        why = f"its lifetime of {self.spec.limits.lifetime:g} s is over"
        self._expiring = asyncio.ensure_future(self._end(why))

    async def put(self, entries: Iterable[archives.Entry]) -> None:
        """Put files, directories and links into the working directory; on the sandboxes' loop.

        Raises:
            ToolError: they are refused, or do not fit.
            SandboxError: it failed.
        """
        for request in archives.puts(entries):
            await self._channel.ask(*request)

    async def _run(
        self, verb: bytes, request: Sequence[bytes], timeout: float, keep: int, asks: Asks | None = None
    ) -> tuple[ExecResult, bool]:
        """Run a request, and check from outside whether the kernel killed for memory meanwhile."""
        before, began = await self._process.stats(), time.monotonic()
        alone, self._busy = self._busy == 0, self._busy + 1
        try:
            answer = await self._channel.ask(verb, *request, most=2 * keep + OVERHEAD, seconds=timeout, asks=asks)
        except SandboxError:
            if killed_for_memory(before, await self._process.stats()):
                return died_of_memory(time.monotonic() - began), False
            raise
        finally:
            self._busy -= 1
        result, alive = result_of(answer)
        if (alone or not result.ok) and killed_for_memory(before, await self._process.stats()):
            result = out_of_memory(result)
        return result, alive
