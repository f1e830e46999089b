"""The test bench of the check: makes sandboxes that are recognizable from outside, and runs programs in them."""

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
"""Limits of the sandboxes of cases: small, so that exceeding them takes little time."""
PYTHON = ("python3", "-I", "-S", "-c")


@dataclass
class Harness:
    """One check in progress.

    Args:
        backend: backend to check.
        found: capabilities that it reported.
        host: the machine that must stay as it is.
        kills: how many times to repeat the cases that kill the owner of sandboxes.
    """

    backend: Backend
    found: Capabilities
    host: Host
    kills: int = 5
    made: list[Sandbox] = field(default_factory=list)
    _outside: str | None = None

    @property
    def absent(self) -> dict[Limit, str]:
        """Limits that do not hold here, and the reasons."""
        return {
            limit: held.how if (held := self.found.limits.get(limit)) else "the backend does not declare it"
            for limit in Limit
            if held_as(self.found, limit) is Enforcement.ABSENT
        }

    def spec(
        self, *, env: Mapping[str, str] | None = None, mounts: tuple[Mount, ...] = (), mark: str = "", **limits: Any
    ) -> SandboxSpec:
        """Return a spec that this backend must accept: small limits, without those that are absent."""
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
        """Create a sandbox that is destroyed after the case, whatever happens to it."""
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
        """Create a sandbox that is destroyed at the end of the block, even if commands are running in it."""
        sandbox = await self.create(self.spec(env=env, mounts=mounts, **limits), files=files, start=start)
        try:
            yield sandbox
        finally:
            await sandbox.destroy()

    async def fork(self, sandbox: Sandbox, n: int) -> list[Sandbox]:
        """Make forks that are destroyed after the case."""
        forks = await sandbox.fork(n)
        self.made.extend(forks)
        return forks

    async def outside(self) -> str:
        """Describe the parts of the host that a sandbox shares; hostile code must not even be tried there."""
        if self._outside is None:
            async with self.sandbox() as sandbox:
                inside = await run_program(sandbox, "whereabouts")
            shared = [kind for kind, name in whereabouts().items() if inside.get(kind) == name]
            same = "boot" in shared and len(shared) > 1
            kinds = ", ".join(kind for kind in shared if kind != "boot")
            self._outside = (
                f"it shares namespaces of the host ({kinds}): hostile code is not tried in it" if same else ""
            )
        return self._outside

    async def clear(self) -> list[str]:
        """Destroy the sandboxes of a case; describe what is left of them on the host."""
        ids = [sandbox.id for sandbox in self.made]
        for sandbox in self.made:
            await sandbox.destroy()
        self.made.clear()
        return self.host.remains(ids)


async def reap_all(backend: Backend) -> Reaped:
    """Reap until nothing is found, at most three times, and return what the last time found.

    Owners of other sandboxes on this machine may die meanwhile; a backend that leaves leftovers finds them again.
    """
    for _ in range(3):
        found = await backend.reap()
        if not (found.sandboxes or found.directories):
            break
    return found


def whereabouts() -> dict[str, str]:
    """Return the machine and the namespaces of this process; see the program of that name."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"boot": boot, **{kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt", "ipc")}}


def held_as(found: Capabilities, limit: Limit) -> Enforcement:
    """Return how well a limit holds; an undeclared one does not."""
    held = found.limits.get(limit)
    return held.enforcement if held else Enforcement.ABSENT


def program(name: str) -> str:
    """Return the source of one of the programs that run inside. They are text files and not modules, since tests and
    tools that import all modules would run them here.
    """
    return (Path(__file__).parent / "payloads" / f"{name}.txt").read_text()


async def python(sandbox: Sandbox, source: str, *arguments: object, timeout: float = 20.0, **more: Any) -> ExecResult:
    """Run Python source in a sandbox."""
    return await sandbox.exec([*PYTHON, source, *map(str, arguments)], timeout=timeout, **more)


async def run_program(sandbox: Sandbox, name: str, *arguments: object, timeout: float = 20.0) -> Any:
    """Run one of the programs inside, and return the JSON that it prints.

    Raises:
        Failed: it did not end normally.
    """
    result = await python(sandbox, program(name), *arguments, timeout=timeout)
    expect(result.ok, f"the program {name!r} ended with {ended(result)}")
    return json.loads(result.stdout.text)


async def works(sandbox: Sandbox) -> None:
    """Check that a sandbox runs commands and distinguishes their exit codes.

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
    """Check that a call raises ``ToolError``.

    Raises:
        Failed: it does not.
    """
    try:
        result = await work
    except ToolError:
        return
    except SandboxError as error:
        raise Failed(f"{what} is not the sandbox's fault, yet it raises SandboxError: {error}") from error
    size = f": {len(result)} bytes" if isinstance(result, bytes) else ""
    raise Failed(f"{what} is not refused{size}")


async def soon(work: Any, what: str, seconds: float = 10.0) -> tuple[Any, float]:
    """Return the result of something that must not hang, and its duration.

    Raises:
        Failed: it hangs.
    """
    began = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            return await work, time.monotonic() - began
    except TimeoutError:
        raise Failed(f"{what} has not returned within {seconds:g} s") from None


def ended(result: ExecResult) -> str:
    """Describe how a command ended."""
    said = (result.stderr.text or result.stdout.text).strip()[-200:]
    return f"{result.status}, exit code {result.exit_code} after {result.seconds:.1f} s" + (f": {said}" if said else "")
