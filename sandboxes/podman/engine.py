"""Finding a Podman engine: the service that ``podman system service`` starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import SandboxUnavailableError
from ..docker.engine import Product

if TYPE_CHECKING:
    from docker import APIClient

WHERE = "CONTAINER_HOST"
"""Podman's own environment variable for the address of its service."""
START = (
    "install it (apt-get install podman) and start its service (systemctl --user start podman.socket, or podman system "
    "service --time=0 unix:///path), or set CONTAINER_HOST=unix:///path to one that runs"
)


def address() -> str:
    """Return the address of the service: ``CONTAINER_HOST``, else this user's, else for root the machine's.

    Raises:
        SandboxUnavailableError: there is none, or it is on another machine.
    """
    named = os.environ.get(WHERE, "")
    if named.startswith("unix://"):
        return named
    if named:
        raise SandboxUnavailableError(
            f"{WHERE}={named} is not supported: sandboxes need an engine on this machine, at unix:///path"
        )
    own = Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}"))
    for folder in (own, *([Path("/run")] if os.geteuid() == 0 else [])):
        if (socket := folder / "podman" / "podman.sock").is_socket():
            return f"unix://{socket}"
    raise SandboxUnavailableError(f"no podman service runs here: {START}")


def connect(where: str) -> APIClient:
    """Return a client of the service at an address."""
    from ..docker.client import client
    from .client import PodmanClient

    return client(where, PodmanClient)


PODMAN = Product("podman", address, connect, START)
