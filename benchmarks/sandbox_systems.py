"""The systems for ``benchmarks/sandbox.py``: this package's backends, and alternatives."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.sandboxes.backend import Backend
from turnwise.sandboxes.runner.inside import ENVIRONMENT
from turnwise.sandboxes.sandbox import Sandbox
from turnwise.sandboxes.spec import MIB, Limit, Limits, SandboxSpec

SAME = {"PATH": ENVIRONMENT["PATH"], "LANG": "C.UTF-8"}
"""The environment of plain subprocesses, in which the same Python is found as in a sandbox."""
PYTHON = ("python3", "-c", "print(1)")
CONTENT = os.urandom(100_000)
TREE = {f"folder{i % 10}/file{i}": os.urandom(5_000) for i in range(200)}
"""Content of the directory for snapshots and forks: 200 files, 1 MB."""
READY = 2
"""Sandboxes that are made ahead, as environments do."""
REFILLED = 0.5
"""Seconds in which others have been made for those that were taken."""
OPTIONS = (
    "network=none cap-drop=ALL security-opt=no-new-privileges read-only pids-limit=64 memory=256m memory-swap=256m "
    "tmpfs=/tmp:exec,mode=1777,size=64m user=1000:1000 workdir=/tmp init"
)
HARDENED = tuple(f"--{option}" for option in OPTIONS.split(" "))
"""Options of a hardened ``docker run``, with about the limits of this package's sandboxes."""


class System(ABC):
    """A way to run commands; each method is one measurement in seconds, or ``None`` if it is not supported."""

    name: str
    cheap: bool = True
    """Whether it is measured often."""

    @abstractmethod
    async def cold(self) -> float:
        """From nothing to the first output."""

    @abstractmethod
    async def begin(self) -> None:
        """Make what the next measurements use."""

    @abstractmethod
    async def python(self) -> float | None:
        """``python3 -c 'print(1)'`` in something that lives."""

    @abstractmethod
    async def nothing(self) -> float:
        """``true`` in something that lives."""

    async def files(self) -> float | None:
        """Write 100 kB and read them back."""
        return None

    async def snapshot(self) -> float | None:
        """The directory as a value."""
        return None

    async def fork(self) -> float | None:
        """A copy, to its first output."""
        return None

    @abstractmethod
    async def destroy(self) -> float | None:
        """The end of what ``begin`` made."""

    async def many(self, n: int) -> Callable[[], Any] | None:
        """Make n that live; returns what ends them all."""
        return None


class Plain(System):
    """``subprocess``, which confines nothing: what the commands themselves cost."""

    name = "subprocess"

    async def cold(self) -> float:
        return await took(["sh", "-c", "echo ready"], SAME)

    async def begin(self) -> None:
        """There is nothing to make."""

    async def python(self) -> float:
        return await took(PYTHON, SAME)

    async def nothing(self) -> float:
        return await took(["true"], SAME)

    async def files(self) -> float:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            path = Path(folder) / "file"
            path.write_bytes(CONTENT)
            assert path.read_bytes() == CONTENT
            return time.perf_counter() - began

    async def destroy(self) -> None:
        return None


class Ours(System):
    """A backend of this package, or a third party's."""

    def __init__(self, backend: Backend, absent: frozenset[Limit]) -> None:
        self.backend, self.name, self.cheap = backend, backend.name, backend.name != "docker"
        self.spec = SandboxSpec(relaxed=absent, limits=Limits(memory=256 * MIB, pids=64))
        self.live: Sandbox | None = None

    async def cold(self) -> float:
        began = time.perf_counter()
        sandbox = await self.backend.create(self.spec)
        assert (await sandbox.exec(["echo", "ready"])).stdout.head == b"ready\n"
        seconds = time.perf_counter() - began
        await sandbox.destroy()
        return seconds

    async def begin(self) -> None:
        self.live = await self.backend.create(self.spec, files=TREE)

    @property
    def sandbox(self) -> Sandbox:
        """The one that lives."""
        assert self.live is not None
        return self.live

    async def python(self) -> float:
        began = time.perf_counter()
        result = await self.sandbox.exec(PYTHON)
        assert result.stdout.head == b"1\n", result
        return time.perf_counter() - began

    async def nothing(self) -> float:
        began = time.perf_counter()
        assert (await self.sandbox.exec(["true"])).ok
        return time.perf_counter() - began

    async def files(self) -> float:
        began = time.perf_counter()
        await self.sandbox.write_files({"written": CONTENT})
        assert await self.sandbox.read_file("written") == CONTENT
        return time.perf_counter() - began

    async def snapshot(self) -> float:
        began = time.perf_counter()
        await self.sandbox.snapshot()
        return time.perf_counter() - began

    async def fork(self) -> float:
        began = time.perf_counter()
        (fork,) = await self.sandbox.fork(1)
        assert (await fork.exec(["echo", "ready"])).ok
        seconds = time.perf_counter() - began
        await fork.destroy()
        return seconds

    async def destroy(self) -> float:
        began = time.perf_counter()
        await self.sandbox.destroy()
        return time.perf_counter() - began

    async def many(self, n: int) -> Callable[[], Any]:
        gate = asyncio.Semaphore(16)

        async def one() -> Sandbox:
            async with gate:
                return await self.backend.create(self.spec)

        made = await asyncio.gather(*(one() for _ in range(n)))

        async def end() -> None:
            await asyncio.gather(*(sandbox.destroy() for sandbox in made))

        return end


class Ready(Ours):
    """The same with sandboxes made ahead of time; each measurement waits until they are there."""

    def __init__(self, backend: Backend, absent: frozenset[Limit]) -> None:
        super().__init__(backend, absent)
        self.name = f"{backend.name}, {READY} ready"
        backend.keep_ready(READY)

    async def cold(self) -> float:
        await asyncio.sleep(REFILLED)
        return await super().cold()

    async def begin(self) -> None:
        await super().begin()
        await asyncio.sleep(REFILLED)

    async def fork(self) -> float:
        await asyncio.sleep(REFILLED)
        return await super().fork()

    async def destroy(self) -> float:
        await asyncio.sleep(REFILLED)
        return await super().destroy()


class DockerCommands(System):
    """``docker run`` and ``docker exec``, hardened."""

    name, cheap = "docker run/exec", False

    def __init__(self, image: str) -> None:
        self.image, self.container = image, ""

    async def cold(self) -> float:
        return await took(["docker", "run", "--rm", *HARDENED, self.image, "echo", "ready"])

    async def begin(self) -> None:
        self.container = f"turnwise-benchmark-{uuid.uuid4().hex[:8]}"
        words = ["docker", "run", "-d", "--name", self.container, *HARDENED, self.image, "sleep", "600"]
        await took(words)

    async def python(self) -> float:
        return await took(["docker", "exec", self.container, *PYTHON])

    async def nothing(self) -> float:
        return await took(["docker", "exec", self.container, "true"])

    async def files(self) -> float:
        began = time.perf_counter()
        write = ["docker", "exec", "-i", self.container, "sh", "-c", "cat > /tmp/file"]
        await asyncio.to_thread(subprocess.run, write, input=CONTENT, check=True)
        read = ["docker", "exec", self.container, "cat", "/tmp/file"]
        done = await asyncio.to_thread(subprocess.run, read, capture_output=True, check=True)
        assert done.stdout == CONTENT
        return time.perf_counter() - began

    async def snapshot(self) -> float:
        return await took(["docker", "exec", self.container, "tar", "-cf", "-", "/tmp"])

    async def destroy(self) -> float:
        return await took(["docker", "rm", "-f", self.container])


class DockerSdk(System):
    """The Docker SDK for Python: ``containers.run`` and ``exec_run``."""

    name, cheap = "docker SDK", False

    def __init__(self, client: Any, image: str) -> None:
        self.client, self.image = client, image
        self.container: Any = None
        self.options: dict[str, Any] = {
            "network_mode": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "read_only": True,
            "pids_limit": 64,
            "mem_limit": "256m",
            "memswap_limit": "256m",
            "tmpfs": {"/tmp": "exec,mode=1777,size=64m"},
            "user": "1000:1000",
            "working_dir": "/tmp",
            "init": True,
        }

    def _run(self) -> Any:
        return self.client.containers.run(self.image, ["sleep", "600"], detach=True, **self.options)

    async def cold(self) -> float:
        began = time.perf_counter()
        container = await asyncio.to_thread(self._run)
        await asyncio.to_thread(container.exec_run, ["echo", "ready"])
        seconds = time.perf_counter() - began
        await asyncio.to_thread(container.remove, force=True)
        return seconds

    async def begin(self) -> None:
        self.container = await asyncio.to_thread(self._run)

    async def python(self) -> float:
        assert self.container is not None
        began = time.perf_counter()
        done = await asyncio.to_thread(self.container.exec_run, list(PYTHON))
        assert done.output == b"1\n", done
        return time.perf_counter() - began

    async def nothing(self) -> float:
        began = time.perf_counter()
        await asyncio.to_thread(self.container.exec_run, ["true"])
        return time.perf_counter() - began

    async def destroy(self) -> float:
        assert self.container is not None
        began = time.perf_counter()
        await asyncio.to_thread(self.container.remove, force=True)
        return time.perf_counter() - began


async def took(words: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """How long a command takes, in a session of its own: the kernel shares processors out by session (autogroup)."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, (words, errors)
    return time.perf_counter() - began
