"""Which sandboxes an environment uses: one backend per name and process, and never one that was not asked for."""

from __future__ import annotations

import asyncio
import atexit
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ...errors import SandboxUnavailableError, UsageError
from ...sandboxes.backend import Backend
from ...sandboxes.loop import LOOP
from ...sandboxes.named import backend_named, default_backend
from ...sandboxes.spec import MIB, Limit, Limits, Mount, SandboxSpec

GRACE = 10.0
"""Seconds that sandboxes have to be destroyed in when the process ends."""
READY = 2
"""Sandboxes that are made before an episode or its grading asks for one."""
UNCONFINED = "unconfined"
SPEC = SandboxSpec(limits=Limits(memory=256 * MIB, disk=16 * MIB))
"""The sandboxes of episodes and of grading."""
LIBRARIES = PurePosixPath("/libraries")
"""Where a task's libraries lie inside."""


def spec_for(name: str | None, relaxed: Sequence[str] = ()) -> SandboxSpec:
    """What a sandbox is asked to be; whoever names ``unconfined`` has said that no limit need hold.

    Raises:
        UsageError: there is no such limit.
    """
    unknown = set(relaxed) - set(Limit)
    if unknown:
        raise UsageError(f"unknown limit in relaxed: {min(unknown)!r}; choose from {', '.join(Limit)}")
    limits = frozenset(Limit) if name == UNCONFINED else frozenset(Limit(limit) for limit in relaxed)
    return SPEC.model_copy(update={"relaxed": limits})


def with_libraries(spec: SandboxSpec, folder: Path | None, name: str | None) -> SandboxSpec:
    """The same sandbox of the backend ``name``, in which Python finds the packages of a folder.

    Raises:
        UsageError: no other user can read the folder, as sandboxes are made for when they are made by root.
    """
    if folder is None:
        return spec
    if name == UNCONFINED:  # which sees the folder where it is, and mounts nothing
        return spec.model_copy(update={"env": {**spec.env, "PYTHONPATH": str(folder)}})
    closed = [path for path in (folder, *folder.parents) if not path.stat().st_mode & stat.S_IXOTH]
    if closed and os.geteuid() == 0:
        raise UsageError(f"sandboxes run as a separate user, which cannot read {closed[0]}: choose another folder")
    mount = Mount(source=folder, target=LIBRARIES)
    return spec.model_copy(update={"mounts": (*spec.mounts, mount), "env": {**spec.env, "PYTHONPATH": str(LIBRARIES)}})


@lru_cache(maxsize=8)
def shared_backend(name: str | None) -> Backend:
    """The backend of this name, which works here; without a name, the first that works and confines.

    Raises:
        UsageError: there is none of this name.
        SandboxUnavailableError: it does not work here, or nothing does that confines.
    """
    backend = LOOP.wait(default_backend()) if name is None else _working(name)
    backend.keep_ready(READY)
    atexit.register(_close, backend)
    return backend


def _working(name: str) -> Backend:
    backend = backend_named(name)
    found = LOOP.wait(backend.probe())
    if not found.available:
        raise SandboxUnavailableError(f"the sandbox backend {name!r} does not work here: {found.why}")
    return backend


def _close(backend: Backend) -> None:
    """Leave no sandbox behind when the process ends; what hangs is left to ``reap``."""
    with suppress(Exception):
        LOOP.wait(asyncio.wait_for(backend.close(), GRACE))
