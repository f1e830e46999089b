"""Sandbox backends of environments: one per name and process, and never one that the user did not ask for."""

from __future__ import annotations

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
from ...sandboxes.start_slots import number_from

GRACE = 10.0
"""Seconds for destroying sandboxes when the process ends."""
READY = 2
"""Sandboxes to create before an episode or its grading needs one, in each process."""
READY_VARIABLE = "TURNWISE_SANDBOXES_READY"
"""Environment variable that replaces ``READY``."""
UNCONFINED = "unconfined"
SPEC = SandboxSpec(limits=Limits(memory=256 * MIB, disk=16 * MIB))
"""Specification of the sandboxes for episodes and for grading."""
LIBRARIES = PurePosixPath("/libraries")
"""Path of a task's libraries inside a sandbox."""


def spec_for(name: str | None, relaxed: Sequence[str] = ()) -> SandboxSpec:
    """Return the specification of a sandbox. ``unconfined`` relaxes every limit, since it can enforce none.

    Raises:
        UsageError: ``relaxed`` has an unknown limit.
    """
    unknown = set(relaxed) - set(Limit)
    if unknown:
        raise UsageError(f"unknown limit in relaxed: {min(unknown)!r}; choose from {', '.join(Limit)}")
    limits = frozenset(Limit) if name == UNCONFINED else frozenset(Limit(limit) for limit in relaxed)
    return SPEC.model_copy(update={"relaxed": limits})


def with_libraries(spec: SandboxSpec, folder: Path | None, name: str | None) -> SandboxSpec:
    """Return the specification for the backend ``name``, extended so that Python finds the packages of a folder.

    Raises:
        UsageError: other users cannot read the folder, as sandboxes that root creates need to.
    """
    if folder is None:
        return spec
    if name == UNCONFINED:  # it sees the folder where it is, and mounts nothing
        return spec.model_copy(update={"env": {**spec.env, "PYTHONPATH": str(folder)}})
    closed = [path for path in (folder, *folder.parents) if not path.stat().st_mode & stat.S_IXOTH]
    if closed and os.geteuid() == 0:
        raise UsageError(f"sandboxes run as a separate user, which cannot read {closed[0]}: choose another folder")
    mount = Mount(source=folder, target=LIBRARIES)
    return spec.model_copy(update={"mounts": (*spec.mounts, mount), "env": {**spec.env, "PYTHONPATH": str(LIBRARIES)}})


@lru_cache(maxsize=8)
def shared_backend(name: str | None) -> Backend:
    """Return the backend of this name; without a name, the first confining backend that works here.

    Raises:
        UsageError: the name is unknown.
        SandboxUnavailableError: the backend does not work here, or no confining backend does.
    """
    backend = LOOP.wait(default_backend()) if name is None else _working(name)
    backend.keep_ready(number_from(READY_VARIABLE, READY))
    atexit.register(_close, backend)
    return backend


def _working(name: str) -> Backend:
    backend = backend_named(name)
    found = LOOP.wait(backend.probe())
    if not found.available:
        raise SandboxUnavailableError(f"the sandbox backend {name!r} does not work here: {found.why}")
    return backend


def _close(backend: Backend) -> None:
    """Destroy all sandboxes when the process ends; ``reap`` later removes those that hang."""
    with suppress(Exception):
        LOOP.wait(backend.close(), GRACE)
