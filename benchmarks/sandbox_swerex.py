"""SWE-ReX's Docker deployment, for ``benchmarks/sandbox.py``: a server in the container, called over HTTP.

It is measured where it is installed (``pip install swe-rex`` in the environment of the benchmark): its server runs in
a container of the same image, from this very environment, mounted read-only; so it needs neither a registry nor a
package index. Its engine has no bridge, so that the container shares the host's network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import socket
import sys
import time

os.environ.setdefault("SWE_REX_LOG_STREAM_LEVEL", "ERROR")  # read when the package is imported

from sandbox_systems import CONTENT, HARDENED, PYTHON, System
from swerex.deployment.docker import DockerDeployment  # type: ignore[import-not-found]
from swerex.runtime.abstract import Command, ReadFileRequest, WriteFileRequest  # type: ignore[import-not-found]

HELD = tuple(word for word in HARDENED if not word.startswith(("--network", "--workdir")))
LIBRARIES = f"/usr/lib/{platform.machine()}-linux-gnu"
"""Libraries that compiled modules of this environment need; the image has those of Python itself."""
PORT = 8000
"""Port on which its server listens, whatever its settings are."""


class SweRex(System):
    """``DockerDeployment``, hardened as ``docker run`` is."""

    name, cheap = "SWE-ReX docker", False

    def __init__(self, image: str) -> None:
        path = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
        mounts = [word for place in (sys.prefix, LIBRARIES) for word in ("-v", f"{place}:{place}:ro")]
        env = [word for pair in (f"PATH={path}", "HOME=/tmp", "PIP_NO_INDEX=1") for word in ("-e", pair)]
        words = ["--network=host", "--workdir=/tmp", *mounts, *env, *HELD]
        self.settings = {"image": image, "pull": "never", "port": PORT, "docker_args": words}
        self.live: DockerDeployment | None = None
        self.seconds = 0.0

    async def cold(self) -> float:
        return self.seconds

    async def begin(self) -> None:
        await free()
        began = time.perf_counter()
        self.live = DockerDeployment(**self.settings)
        await self.live.start()
        await self.live.runtime.execute(Command(command=["echo", "ready"]))
        self.seconds = time.perf_counter() - began  # two at a time would need the same port

    async def python(self) -> float:
        assert self.live is not None
        began = time.perf_counter()
        done = await self.live.runtime.execute(Command(command=list(PYTHON)))
        assert done.stdout == "1\n", done
        return time.perf_counter() - began

    async def nothing(self) -> float:
        assert self.live is not None
        began = time.perf_counter()
        await self.live.runtime.execute(Command(command=["true"]))
        return time.perf_counter() - began

    async def files(self) -> float:
        assert self.live is not None
        text = CONTENT.hex()[: len(CONTENT)]  # it writes text only
        began = time.perf_counter()
        await self.live.runtime.write_file(WriteFileRequest(path="/tmp/file", content=text))
        read = await self.live.runtime.read_file(ReadFileRequest(path="/tmp/file"))
        assert read.content == text
        return time.perf_counter() - began

    async def destroy(self) -> float:
        assert self.live is not None
        began = time.perf_counter()
        await self.live.stop()
        return time.perf_counter() - began


async def free() -> None:
    """Wait until the last container's server has released its port."""
    async with asyncio.timeout(30):
        while True:
            with socket.socket() as trial, contextlib.suppress(OSError):
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(("0.0.0.0", PORT))
                return
            await asyncio.sleep(0.05)
