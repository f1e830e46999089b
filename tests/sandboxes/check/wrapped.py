"""A backend round another one, and a sandbox round another one: what faults are planted in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from turnwise.sandboxes.backend import Backend, Capabilities, Reaped
from turnwise.sandboxes.result import ExecResult, FileInfo, Stats
from turnwise.sandboxes.sandbox import Command, Sandbox, Session, SessionKind
from turnwise.sandboxes.snapshot import Snapshot
from turnwise.sandboxes.spec import SandboxSpec
from turnwise.sandboxes.unconfined import UnconfinedBackend


class WrappedSession(Session):
    """Passes everything on."""

    def __init__(self, inner: Session) -> None:
        self.inner, self.kind = inner, inner.kind

    @property
    def alive(self) -> bool:
        return self.inner.alive

    async def run(self, source: str, **how: Any) -> ExecResult:
        return await self.inner.run(source, **how)

    async def close(self) -> None:
        await self.inner.close()


class WrappedSandbox(Sandbox):
    """Passes everything on."""

    sessions: ClassVar[type[WrappedSession]] = WrappedSession

    def __init__(self, inner: Sandbox) -> None:
        self.inner, self.id, self.spec = inner, inner.id, inner.spec

    @property
    def alive(self) -> bool:
        return self.inner.alive

    async def exec(self, command: Command, **how: Any) -> ExecResult:
        return await self.inner.exec(command, **how)

    async def session(self, kind: SessionKind = "sh") -> Session:
        return self.sessions(await self.inner.session(kind))

    async def write_files(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        await self.inner.write_files(files, executable=executable)

    async def read_file(self, path: str, *, limit: int = 1024 * 1024) -> bytes:
        return await self.inner.read_file(path, limit=limit)

    async def list_files(self, path: str = ".", *, limit: int = 10_000) -> tuple[FileInfo, ...]:
        return await self.inner.list_files(path, limit=limit)

    async def remove(self, paths: Sequence[str]) -> None:
        await self.inner.remove(paths)

    async def snapshot(self) -> Snapshot:
        return await self.inner.snapshot()

    async def fork(self, n: int = 1) -> list[Sandbox]:
        return [type(self)(each) for each in await self.inner.fork(n)]

    async def stats(self) -> Stats:
        return await self.inner.stats()

    async def destroy(self) -> None:
        await self.inner.destroy()


class WrappedBackend(Backend):
    """Passes everything on to the unconfined backend."""

    name = "wrapped"
    sandboxes: ClassVar[type[WrappedSandbox]] = WrappedSandbox

    def __init__(self) -> None:
        self.inner: Backend = UnconfinedBackend()

    async def probe(self) -> Capabilities:
        return await self.inner.probe()

    async def create(self, spec: SandboxSpec | None = None, **more: Any) -> Sandbox:
        return self.sandboxes(await self.inner.create(spec, **more))

    async def reap(self) -> Reaped:
        return await self.inner.reap()

    async def close(self) -> None:
        await self.inner.close()


def faulty(sandbox: type[WrappedSandbox]) -> type[WrappedBackend]:
    """A backend whose sandboxes have a fault."""
    return type(f"{sandbox.__name__}Backend", (WrappedBackend,), {"sandboxes": sandbox})


def in_session(session: type[WrappedSession]) -> type[WrappedBackend]:
    """A backend whose sandboxes' sessions have a fault."""
    return faulty(type(f"{session.__name__}Sandbox", (WrappedSandbox,), {"sessions": session}))


async def regardless(work: Any) -> Any:
    """Return the result of work that continues when a caller is canceled."""
    return await asyncio.shield(asyncio.ensure_future(work))
