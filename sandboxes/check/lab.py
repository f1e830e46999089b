"""Where cases are tried: makes sandboxes that are known from outside, and runs programs in them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import SandboxError, ToolError
from ...verdicts import Failed, expect
from ..backend import Backend, Capabilities, Enforcement, Reaped
from ..result import ExecResult
from ..sandbox import Sandbox
from ..snapshot import Snapshot
from ..spec import MIB, Limit, Limits, Mount, SandboxSpec
from .host import MARK, Host

SMALL: Mapping[str, Any] = {
    "memory": 128 * MIB,
    "pids": 32,
    "disk": 16 * MIB,
    "inodes": 4096,
    "output": 64 * 1024,
    "lifetime": 600.0,
}
"""Limits of the sandboxes in which cases are tried: small, so that what goes beyond them does so at once."""
PYTHON = ("python3", "-I", "-S", "-c")


@dataclass
class Lab:
    """One check in progress.

    Args:
        backend: what is checked.
        found: what it said of itself.
        host: the machine that must stay as it is.
        kills: how often the cases that kill the owner of sandboxes do so.
    """

    backend: Backend
    found: Capabilities
    host: Host
    kills: int = 5
    made: list[Sandbox] = field(default_factory=list)
    _outside: str | None = None

    @property
    def absent(self) -> dict[Limit, str]:
        """Limits that do not hold here, and why."""
        return {
            limit: held.how if (held := self.found.limits.get(limit)) else "the backend does not declare it"
            for limit in Limit
            if held_as(self.found, limit) is Enforcement.ABSENT
        }

    def spec(
        self, *, env: Mapping[str, str] | None = None, mounts: tuple[Mount, ...] = (), mark: str = "", **limits: Any
    ) -> SandboxSpec:
        """A spec that this backend must accept: small limits, those that are absent relaxed."""
        return SandboxSpec(
            env={MARK: mark or self.host.mark, **(env or {})},
            limits=Limits(**{**SMALL, **limits}),
            mounts=mounts,
            relaxed=frozenset(self.absent),
        )

    async def create(
        self,
        spec: SandboxSpec | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        start: Snapshot | None = None,
    ) -> Sandbox:
        """A new sandbox that is destroyed after the case, whatever becomes of it."""
        sandbox = await self.backend.create(spec or self.spec(), files=files, start=start)
        self.made.append(sandbox)
        return sandbox

    @asynccontextmanager
    async def sandbox(
        self,
        *,
        files: Mapping[str, bytes] | None = None,
        start: Snapshot | None = None,
        env: Mapping[str, str] | None = None,
        mounts: tuple[Mount, ...] = (),
        **limits: Any,
    ) -> AsyncIterator[Sandbox]:
        """A new sandbox, destroyed at the end, also with commands running in it."""
        sandbox = await self.create(self.spec(env=env, mounts=mounts, **limits), files=files, start=start)
        try:
            yield sandbox
        finally:
            await sandbox.destroy()

    async def fork(self, sandbox: Sandbox, n: int) -> list[Sandbox]:
        """Forks that are destroyed after the case."""
        forks = await sandbox.fork(n)
        self.made.extend(forks)
        return forks

    async def outside(self) -> str:
        """What of the host a sandbox is plainly in, in words; hostile code must not even be tried there."""
        if self._outside is None:
            async with self.sandbox() as sandbox:
                inside = await told(sandbox, "whereabouts")
            shared = [kind for kind, name in whereabouts().items() if inside.get(kind) == name]
            same = "boot" in shared and len(shared) > 1
            kinds = ", ".join(kind for kind in shared if kind != "boot")
            self._outside = (
                f"it shares namespaces of the host ({kinds}): hostile code is not tried in it" if same else ""
            )
        return self._outside

    async def clear(self) -> list[str]:
        """Destroy what a case made; returns what is left of it on the host, in words."""
        ids = [sandbox.id for sandbox in self.made]
        for sandbox in self.made:
            await sandbox.destroy()
        self.made.clear()
        return self.host.remains(ids)


async def reap_all(backend: Backend) -> Reaped:
    """Reap until nothing is found, three times at most, and return what the last time found.

    Owners of other sandboxes on this machine may die meanwhile; a backend that leaves something behind finds it again.
    """
    for _ in range(3):
        found = await backend.reap()
        if not (found.sandboxes or found.directories):
            break
    return found


def whereabouts() -> dict[str, str]:
    """Which machine and which namespaces this process is in; see the program of that name."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"boot": boot, **{kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt", "ipc")}}


def held_as(found: Capabilities, limit: Limit) -> Enforcement:
    """How well a limit holds; one that is not declared does not."""
    held = found.limits.get(limit)
    return held.enforcement if held else Enforcement.ABSENT


def program(name: str) -> str:
    """The source of one of the programs that run inside. They are text and no modules: whoever imports all modules, as
    tests and tools do, would run them here.
    """
    return (Path(__file__).parent / "payloads" / f"{name}.txt").read_text()


async def python(sandbox: Sandbox, source: str, *arguments: object, timeout: float = 20.0, **more: Any) -> ExecResult:
    """Run Python source in a sandbox."""
    return await sandbox.exec([*PYTHON, source, *map(str, arguments)], timeout=timeout, **more)


async def told(sandbox: Sandbox, name: str, *arguments: object, timeout: float = 20.0) -> Any:
    """What one of the programs found inside: it prints JSON.

    Raises:
        Failed: it did not end well.
    """
    result = await python(sandbox, program(name), *arguments, timeout=timeout)
    expect(result.ok, f"the program {name!r} ended with {ended(result)}")
    return json.loads(result.stdout.text)


async def works(sandbox: Sandbox) -> None:
    """See that a sandbox runs commands and tells their exit codes apart.

    Raises:
        Failed: it does not.
    """
    try:
        result = await sandbox.exec("echo works; exit 5", timeout=20.0)
    except SandboxError as error:
        raise Failed(f"the sandbox no longer works: {error}") from error
    expect(
        (result.exit_code, result.stdout.text) == (5, "works\n"),
        f"the sandbox no longer works: 'echo works; exit 5' ended with {ended(result)}",
    )


async def refused(work: Awaitable[object], what: str) -> None:
    """See that something is a ``ToolError``.

    Raises:
        Failed: it is not.
    """
    try:
        result = await work
    except ToolError:
        return
    except SandboxError as error:
        raise Failed(f"{what} is not the sandbox's fault, yet it raises SandboxError: {error}") from error
    told = f": {len(result)} bytes" if isinstance(result, bytes) else ""
    raise Failed(f"{what} is not refused{told}")


async def soon(work: Any, what: str, seconds: float = 10.0) -> tuple[Any, float]:
    """The result of something that must not hang, and how long it took.

    Raises:
        Failed: it hangs.
    """
    began = time.monotonic()
    try:
        return await asyncio.wait_for(work, seconds), time.monotonic() - began
    except TimeoutError:
        raise Failed(f"{what} has not returned within {seconds:g} s") from None


def ended(result: ExecResult) -> str:
    """How a command ended, in words."""
    said = (result.stderr.text or result.stdout.text).strip()[-200:]
    return f"{result.status}, exit code {result.exit_code} after {result.seconds:.1f} s" + (f": {said}" if said else "")
