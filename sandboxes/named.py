"""Backends by name: Turnwise's own, and those that other packages register."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import entry_points

from ..errors import SandboxUnavailableError, UsageError
from .backend import Backend

GROUP = "turnwise.sandboxes"
"""Entry-point group of other packages: a name, and a class derived from ``Backend`` without required arguments."""
OURS = {
    "bubblewrap": ".bubblewrap.backend:BubblewrapBackend",
    "docker": ".docker.backend:DockerBackend",
    "podman": ".podman.backend:PodmanBackend",
    "unconfined": ".unconfined:UnconfinedBackend",
}
BY_ITSELF = ("bubblewrap", "docker", "podman")
"""Backends to try, in this order, if none is named. A backend that confines nothing is never among them."""


def backend_names() -> tuple[str, ...]:
    """Return all names that ``backend_named`` knows, Turnwise's own first."""
    others = sorted(point.name for point in entry_points(group=GROUP) if point.name not in OURS)
    return (*OURS, *others)


def backend_named(name: str) -> Backend:
    """Create a backend by its name. It may not work on this machine: ``probe`` it.

    Raises:
        UsageError: there is no backend of this name, or it cannot be imported.
    """
    if name in OURS:
        module, _, attribute = OURS[name].partition(":")
        made: Backend = getattr(import_module(module, __package__), attribute)()
        return made
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _loaded(point.value, point.load()())
    near = difflib.get_close_matches(name, backend_names(), n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"there is no sandbox backend {name!r}; choose from {', '.join(backend_names())}{meant}")


async def default_backend() -> Backend:
    """Return the first backend that works here and confines.

    Raises:
        SandboxUnavailableError: none works; the message says what each lacks.
    """
    lacks = list[str]()
    for name in BY_ITSELF:
        backend = backend_named(name)
        found = await backend.probe()
        if found.available and found.confines:
            return backend
        await backend.close()
        lacks.append(f"{name}: {found.why}")
    raise SandboxUnavailableError("untrusted code cannot run here: " + "; ".join(lacks))


def _loaded(where: str, made: object) -> Backend:
    if not isinstance(made, Backend):
        raise UsageError(f"the entry point {where} of the group {GROUP} returns a {type(made).__name__}, not a Backend")
    return made
