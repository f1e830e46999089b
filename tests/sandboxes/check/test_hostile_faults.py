"""Holes made in bubblewrap's confinement: each is found by the hostile case that looks for it."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise import verdicts
from turnwise.errors import ToolError
from turnwise.sandboxes.backend import Backend
from turnwise.sandboxes.bubblewrap import backend as bubblewrap
from turnwise.sandboxes.bubblewrap import seccomp
from turnwise.sandboxes.bubblewrap.arguments import arguments
from turnwise.sandboxes.check.check import check
from turnwise.sandboxes.check.host import SECRET
from turnwise.sandboxes.result import ExecResult, Status
from turnwise.sandboxes.runner.runner_process import RunnerProcess
from turnwise.sandboxes.sandbox import Command, Sandbox
from turnwise.sandboxes.spec import Limits, SandboxSpec

from ...shifts import sampled
from .wrapped import WrappedBackend, WrappedSandbox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("bwrap"), reason="NOT TESTED without bubblewrap: apt-get install bubblewrap"),
]

ALLOW_EVERYTHING = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
"""A filter of one instruction: return SECCOMP_RET_ALLOW."""
Patch = Callable[[pytest.MonkeyPatch, Path], None]


def reworded(change: Callable[[list[str], Path], list[str]]) -> Patch:
    """Change the arguments of bubblewrap."""

    def patch(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        def changed(*given: Any) -> bytes:
            words = arguments(*given).decode("utf-8", "surrogateescape").split("\0")[:-1]
            return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in change(words, folder))

        monkeypatch.setattr(bubblewrap, "arguments", changed)

    return patch


def without_filter(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(seccomp, "program", lambda: ALLOW_EVERYTHING)


def with_network(words: list[str], folder: Path) -> list[str]:
    at = words.index("--unshare-all")
    return [*words[:at], "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup", *words[at + 1 :]]


def with_the_log(words: list[str], folder: Path) -> list[str]:
    at = words.index("--dev")
    return [*words[: at + 2], "--dev-bind", "/dev/kmsg", "/dev/kmsg", *words[at + 2 :]]


def with_common_temporary_files(words: list[str], folder: Path) -> list[str]:
    at = words.index("/tmp")
    return [*words[: at + 1], "--bind", str(folder), "/tmp", *words[at + 1 :]]


def with_common_queues(words: list[str], folder: Path) -> list[str]:
    at = words.index("--unshare-all")
    return [*words[:at], "--unshare-net", "--unshare-pid", "--unshare-uts", "--unshare-cgroup", *words[at + 1 :]]


def with_more(field: str) -> Patch:
    """Twice the given limit."""

    def patch(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        honest = bubblewrap.BubblewrapBackend.start_runner

        async def start_runner(self: bubblewrap.BubblewrapBackend, spec: SandboxSpec) -> RunnerProcess:
            limits: Limits = spec.limits.model_copy(update={field: 2 * getattr(spec.limits, field)})
            return await honest(self, spec.model_copy(update={"limits": limits}))

        monkeypatch.setattr(bubblewrap.BubblewrapBackend, "start_runner", start_runner)

    return patch


HOLES: tuple[tuple[str, Patch, int, str], ...] = (
    ("twice the processes", with_more("pids"), 1, "processes, though the limit is 32"),
    ("twice the memory", with_more("memory"), 2, "bytes were used"),
    ("twice the memory", with_more("memory"), 3, "bytes were used|ended with"),
    ("twice the disk", with_more("disk"), 5, "bytes were written, the limit"),
    ("the host's network", reworded(with_network), 25, "reached from inside: TCP 127.0.0.1"),
    ("the host's abstract sockets", reworded(with_network), 26, "reached from inside"),
    ("no filter", without_filter, 27, "can be opened: .*netlink"),
    ("no filter", without_filter, 29, "not denied: .*io_uring_setup"),
    ("the host's kernel log", reworded(with_the_log), 32, "should not be there: /dev/kmsg"),
    ("common temporary files", reworded(with_common_temporary_files), 37, "finds what the other left: /tmp"),
    ("common queues", reworded(with_common_queues), 37, "shares namespaces of the host .ipc"),
)

DRAWN = sampled(HOLES, 4, key="holes")
"""Holes that the core makes; the others are in shifts."""


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that every user of this machine can use; pytest's own are private."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


@pytest.mark.parametrize(
    ("patch", "number", "words"),
    [
        pytest.param(*hole[1:], id=f"{hole[0]}-{hole[2]}", marks=() if hole in DRAWN else pytest.mark.shift)
        for hole in HOLES
    ],
)
async def test_a_hole_is_found(
    patch: Patch, number: int, words: str, monkeypatch: pytest.MonkeyPatch, common: Path
) -> None:
    patch(monkeypatch, common)
    await found(bubblewrap.BubblewrapBackend(), number, words)


class ReadsOnTheHost(WrappedSandbox):
    async def read_file(self, path: str, *, limit: int = 1024 * 1024) -> bytes:
        try:
            return await super().read_file(path, limit=limit)
        except ToolError:
            return on_the_host(path)


def on_the_host(path: str) -> bytes:
    if not path.startswith("/") or not os.path.isfile(path):
        raise ToolError("no such file")
    return Path(path).read_bytes()


class CallsOomASignal(WrappedSandbox):
    async def exec(self, command: Command, **how: Any) -> ExecResult:
        result = await super().exec(command, **how)
        return dataclasses.replace(result, status=Status.SIGNALED) if result.status is Status.OOM else result


class ForksNothing(WrappedSandbox):
    async def fork(self, n: int = 1) -> list[Sandbox]:
        return [type(self)(self.inner) for _ in range(n)]


class Outlasting(WrappedSandbox):
    async def destroy(self) -> None:
        """Kept for the next one who asks."""


class Faulty(WrappedBackend):
    """Bubblewrap, wrapped."""

    def __init__(self, sandboxes: type[WrappedSandbox]) -> None:
        self.inner: Backend = bubblewrap.BubblewrapBackend()
        self.kind, self.first = sandboxes, dict[str, Sandbox]()

    async def create(self, spec: SandboxSpec | None = None, **more: Any) -> Sandbox:
        return self.kind(await self.inner.create(spec, **more))


class LeaksTheEnvironment(Faulty):
    async def create(self, spec: SandboxSpec | None = None, **more: Any) -> Sandbox:
        spec = spec or SandboxSpec()
        leaking = spec.model_copy(update={"env": {**spec.env, "LEAKED": os.environ.get(SECRET, "")}})
        return await super().create(leaking, **more)


class ReusesSandboxes(Faulty):
    async def create(self, spec: SandboxSpec | None = None, **more: Any) -> Sandbox:
        if "first" not in self.first:
            self.first["first"] = await super().create(spec, **more)
        else:
            await self.first["first"].write_files(more.get("files") or {})
        return self.first["first"]


FAULTS: tuple[tuple[Callable[[], Faulty], int, str], ...] = (
    (lambda: Faulty(CallsOomASignal), 2, "not oom"),
    (lambda: LeaksTheEnvironment(WrappedSandbox), 17, "planted secret of the host was found"),
    (lambda: Faulty(ReadsOnTheHost), 21, "gave the planted secret of the host"),
    (lambda: ReusesSandboxes(Outlasting), 35, "a fresh sandbox holds"),
    (lambda: Faulty(ForksNothing), 44, "was changed by another|holds"),
)


@pytest.mark.shift("hostile faults")
@pytest.mark.parametrize(("make", "number", "words"), FAULTS, ids=[f"case-{number}" for _, number, _ in FAULTS])
async def test_a_fault_is_found(make: Callable[[], Faulty], number: int, words: str) -> None:
    await found(make(), number, words)


async def found(backend: Backend, number: int, words: str) -> None:
    """The law: the case fails, and its evidence says why."""
    try:
        (verdict,) = (await check(backend, cases=[number])).verdicts
    finally:
        await backend.close()
    assert verdict.status is verdicts.Status.FAIL, str(verdict)
    assert re.search(words, verdict.evidence), f"it must say {words!r}: {verdict.evidence}"
