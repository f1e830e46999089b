"""Backends with one fault each, and the case of the contract that must name it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.errors import SandboxError, ToolError
from turnwise.sandboxes.backend import Capabilities, Enforcement, Guarantee, Reaped
from turnwise.sandboxes.result import ExecResult, FileInfo, Output, Stats, Status
from turnwise.sandboxes.sandbox import Command, Sandbox, Session, SessionKind
from turnwise.sandboxes.snapshot import Snapshot
from turnwise.sandboxes.spec import Limit, SandboxSpec

from .wrapped import WrappedBackend, WrappedSandbox, WrappedSession, faulty, in_session, regardless


class SplitsArguments(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        return await super().exec(command if isinstance(command, str) else " ".join(command), **how)


class RunsTextAsAProgram(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        return await super().exec(shlex.split(command) if isinstance(command, str) else command, **how)


class LeaksEnvironment(WrappedSandbox):
    async def exec(self, command: Command, env: Mapping[str, str] | None = None, **how: Any) -> ExecResult:
        return await super().exec(command, env={**os.environ, **self.spec.env, **(env or {})}, **how)


class IgnoresTheDirectory(WrappedSandbox):
    async def exec(self, command: Command, cwd: str | None = None, **how: Any) -> ExecResult:
        return await super().exec(command, **how)


class AddsALineBreak(WrappedSandbox):
    async def exec(self, command: Command, stdin: bytes = b"", **how: Any) -> ExecResult:
        return await super().exec(command, stdin=stdin + b"\n", **how)


class ReadsSignalsFromExitCodes(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        result = await super().exec(command, **how)
        if result.exit_code > 128 and result.status is Status.EXITED:
            return dataclasses.replace(result, status=Status.SIGNALED, signal=result.exit_code - 128)
        return result


class TimeoutsAreExitZero(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        result = await super().exec(command, **how)
        if result.status is Status.TIMEOUT:
            return dataclasses.replace(result, status=Status.EXITED, exit_code=0, signal=None)
        return result


def left_running(env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "62"], env=env)


class KeepsProcesses(WrappedSandbox):
    kept: subprocess.Popen[bytes] | None = None

    async def exec(self, command: Command, **how: Any) -> ExecResult:
        if "sleep 62" in command and self.kept is None:
            self.kept = left_running({**os.environ, **self.spec.env})
        return await super().exec(command, **how)

    async def destroy(self) -> None:
        await super().destroy()
        if self.kept is not None:
            self.kept.kill()
            self.kept.wait()


class MeasuresNothing(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        return dataclasses.replace(await super().exec(command, **how), cpu_seconds=0.0)


class OneAfterTheOther(WrappedSandbox):
    def __init__(self, inner: Sandbox) -> None:
        super().__init__(inner)
        self.turn = asyncio.Lock()

    async def exec(self, command: Command, **how: Any) -> ExecResult:
        async with self.turn:
            return await super().exec(command, **how)


class GoesOnWhenCancelled(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        result: ExecResult = await regardless(super().exec(command, **how))
        return result


class DropsSilently(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        result = await super().exec(command, **how)
        return dataclasses.replace(result, stdout=dataclasses.replace(result.stdout, dropped=0))


class IgnoresTheOutputLimit(WrappedSandbox):
    async def exec(self, command: Command, output: int | None = None, **how: Any) -> ExecResult:
        return await super().exec(command, **how)


class Unmentioned(Output):
    @property
    def text(self) -> str:
        return (self.head + self.tail).decode(errors="replace")


class DropsUnmentioned(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        result = await super().exec(command, **how)
        stdout = result.stdout
        return dataclasses.replace(result, stdout=Unmentioned(stdout.head, stdout.tail, stdout.dropped))


class WritesText(WrappedSandbox):
    async def write_files(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        plain = {path: content.decode(errors="replace").encode() for path, content in files.items()}
        await super().write_files(plain, executable=executable)


class EverythingRuns(WrappedSandbox):
    async def write_files(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        await super().write_files(files, executable=True)


class StripsPathsUpwards(WrappedSandbox):
    async def write_files(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        inside = {path.replace("../", "").lstrip("/") or "x": content for path, content in files.items()}
        await super().write_files(inside, executable=executable)


class CutsLargeFiles(WrappedSandbox):
    async def read_file(self, path: str, *, limit: int = 1024 * 1024) -> bytes:
        return (await super().read_file(path))[:limit]


class ListsInAnyOrder(WrappedSandbox):
    async def list_files(self, path: str = ".", *, limit: int = 10_000) -> tuple[FileInfo, ...]:
        return tuple(reversed(await super().list_files(path, limit=limit)))


class KeepsWhatIsBelow(WrappedSandbox):
    async def remove(self, paths: Sequence[str]) -> None:
        files = {entry.path for entry in await self.list_files() if entry.kind != "directory"}
        await super().remove([path for path in paths if path in files])


class ForgetsTheShell(WrappedSandbox):
    async def session(self, kind: SessionKind = "sh") -> Session:
        outer, inner = self.inner, await super().session(kind)

        class Fresh(WrappedSession):
            async def run(self, source: str, **how: Any) -> ExecResult:
                return await (await outer.session("sh")).run(source, **how)

        return Fresh(inner) if kind == "sh" else inner


class PrintsNoValues(WrappedSession):
    async def run(self, source: str, **how: Any) -> ExecResult:
        return await super().run(f"{source}\npass" if self.kind == "python" else source, **how)


class ReadsTheNextCommand(WrappedSession):
    swallowed = False

    async def run(self, source: str, **how: Any) -> ExecResult:
        if self.swallowed:
            source, self.swallowed = ":" if self.kind == "sh" else "pass", False
        self.swallowed = "cat" in source
        return await super().run(source, **how)


class AnswersWithItsOwn(WrappedSession):
    async def run(self, source: str, answer: Any = None, **how: Any) -> ExecResult:
        async def nothing(request: bytes) -> bytes:
            await answer(request)
            return b""

        return await super().run(source, answer=answer and nothing, **how)


class LetsAnswersGoOn(WrappedSession):
    async def run(self, source: str, answer: Any = None, **how: Any) -> ExecResult:
        async def shielded(request: bytes) -> bytes:
            return bytes(await regardless(answer(request)))

        return await super().run(source, answer=answer and shielded, **how)


class CallsATimeoutAnError(WrappedSession):
    async def run(self, source: str, **how: Any) -> ExecResult:
        result = await super().run(source, **how)
        late = result.status is Status.TIMEOUT
        return dataclasses.replace(result, status=Status.EXITED, exit_code=1) if late else result


class StaysAlive(WrappedSession):
    @property
    def alive(self) -> bool:
        return True


class OneSessionForAll(WrappedSandbox):
    def __init__(self, inner: Sandbox) -> None:
        super().__init__(inner)
        self.opened: dict[SessionKind, asyncio.Task[Session]] = {}

    async def session(self, kind: SessionKind = "sh") -> Session:
        if kind not in self.opened:
            self.opened[kind] = asyncio.ensure_future(super().session(kind))
        return await self.opened[kind]


class ForgetsModes(WrappedBackend):
    async def create(self, spec: SandboxSpec | None = None, **more: Any) -> Sandbox:
        made = await super().create(spec, **more)
        if more.get("start") is not None:
            await made.exec("chmod -R a-x,u+X .")
        return made


class NotesTheTime(WrappedSandbox):
    async def snapshot(self) -> Snapshot:
        return Snapshot((await super().snapshot()).archive + os.urandom(8))


class ForksShareTheParent(WrappedSandbox):
    async def fork(self, n: int = 1) -> list[Sandbox]:
        return [type(self)(self.inner) for _ in range(n)]


class UsedBefore(WrappedBackend):
    async def create(self, spec: SandboxSpec | None = None, **more: Any) -> Sandbox:
        return await super().create(spec, **{**more, "files": {"left": b"", **(more.get("files") or {})}})


class DestroyedIsToolError(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        try:
            return await super().exec(command, **how)
        except SandboxError as error:
            raise ToolError(str(error)) from error


class ForgetsToDestroy(WrappedSandbox):
    async def destroy(self) -> None:
        """Left running; who tidies up after the tests is its backend."""

    @property
    def alive(self) -> bool:
        return False


class BelongsToOneLoop(WrappedSandbox):
    def __init__(self, inner: Sandbox) -> None:
        super().__init__(inner)
        self.loop = asyncio.get_running_loop()

    async def exec(self, command: Command, **how: Any) -> ExecResult:
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("is bound to a different event loop")
        return await super().exec(command, **how)


class LivesForEver(WrappedBackend):
    async def probe(self) -> Capabilities:
        found = await super().probe()
        held = Guarantee(Enforcement.ENFORCED, "so it says")
        return dataclasses.replace(found, limits={**found.limits, Limit.LIFETIME: held})

    async def create(self, spec: SandboxSpec | None = None, **more: Any) -> Sandbox:
        spec = spec or SandboxSpec()
        limits = spec.limits.model_copy(update={"lifetime": 3600.0})
        return await super().create(spec.model_copy(update={"limits": limits}), **more)


class CountsNothing(WrappedSandbox):
    async def stats(self) -> Stats:
        return dataclasses.replace(await super().stats(), pids=1, cpu_seconds=0.0)


class KeepsFilesOpen(WrappedSandbox):
    def __init__(self, inner: Sandbox) -> None:
        super().__init__(inner)
        self.held = os.open("/dev/null", os.O_RDONLY)


class ReapsTheLiving(WrappedBackend):
    async def reap(self) -> Reaped:
        await self.inner.close()
        return Reaped(sandboxes=1)


class DeclaresNothing(WrappedBackend):
    async def probe(self) -> Capabilities:
        found = await super().probe()
        return dataclasses.replace(found, limits={k: v for k, v in found.limits.items() if k is not Limit.CPUS})


class TakesWhatItCannotHold(WrappedBackend):
    async def create(self, spec: SandboxSpec | None = None, **more: Any) -> Sandbox:
        spec = (spec or SandboxSpec()).model_copy(update={"relaxed": frozenset(Limit)})
        return await super().create(spec, **more)


Planted = tuple[type[WrappedBackend], int, str]
FAULTS: tuple[Planted, ...] = (
    (faulty(SplitsArguments), 101, "ended with|arrived as"),
    (faulty(RunsTextAsAProgram), 102, "gave|ToolError"),
    (faulty(LeaksEnvironment), 103, "came in|arrived as"),
    (faulty(IgnoresTheDirectory), 104, "cwd='below/it'"),
    (faulty(AddsALineBreak), 105, "came back changed"),
    (faulty(ReadsSignalsFromExitCodes), 106, "exit 255"),
    (faulty(TimeoutsAreExitZero), 107, "it ended with exited"),
    (faulty(KeepsProcesses), 108, "still running: sleep 62"),
    (faulty(MeasuresNothing), 109, "0.00 processor seconds"),
    (faulty(OneAfterTheOther), 110, "one after the other"),
    (faulty(GoesOnWhenCancelled), 111, "still runs"),
    (faulty(DropsSilently), 121, "do not add up"),
    (faulty(IgnoresTheOutputLimit), 122, "though the limit is 1000"),
    (faulty(DropsUnmentioned), 123, "not mentioned"),
    (faulty(WritesText), 131, "came back as"),
    (faulty(EverythingRuns), 132, "not written as executable"),
    (faulty(StripsPathsUpwards), 133, "writing '../escape' is not refused"),
    (faulty(CutsLargeFiles), 134, "one byte more"),
    (faulty(ListsInAnyOrder), 135, "the listing is"),
    (faulty(KeepsWhatIsBelow), 136, "after removing all else"),
    (faulty(ForgetsTheShell), 141, "state is lost"),
    (in_session(PrintsNoValues), 142, "last value"),
    (in_session(ReadsTheNextCommand), 143, "swallowed"),
    (in_session(CallsATimeoutAnError), 144, "it ended with exited"),
    (in_session(StaysAlive), 145, "alive|goes on"),
    (faulty(OneSessionForAll), 146, "share variables|still running something"),
    (in_session(AnswersWithItsOwn), 147, "asking ended with"),
    (in_session(LetsAnswersGoOn), 148, "its answer is asked"),
    (ForgetsModes, 151, "the other sandbox has"),
    (faulty(NotesTheTime), 152, "other archives"),
    (faulty(ForksShareTheParent), 153, "the name of another"),
    (UsedBefore, 161, "a new sandbox holds"),
    (faulty(DestroyedIsToolError), 162, "ToolError, not SandboxError"),
    (faulty(BelongsToOneLoop), 163, "different event loop"),
    (LivesForEver, 164, "should raise SandboxError"),
    (faulty(CountsNothing), 165, "after more use"),
    (faulty(KeepsFilesOpen), 166, "open files before"),
    (ReapsTheLiving, 168, "no longer works"),
    (DeclaresNothing, 46, "does not say"),
    (TakesWhatItCannotHold, 46, "declared absent"),
)
"""Backends, the number of the case that must fail, and words that its evidence must hold."""
