"""Sandboxes in containers of Podman, which needs neither root nor a Docker engine."""

from __future__ import annotations

from typing import ClassVar

from ..docker.backend import DockerBackend
from ..docker.engine import Product
from .engine import PODMAN


class PodmanBackend(DockerBackend):
    """Makes containers as ``DockerBackend`` does, on Podman's service.

    Without root, Podman can limit memory, processes and processor time only with version 2 of control groups, and only
    those that its user was given; ``probe`` says which are absent.

    Args:
        engine: address of the service, ``unix:///path`` (default: ``CONTAINER_HOST``, else the usual sockets).
        runtime: container runtime (default: ``TURNWISE_PODMAN_RUNTIME``, else the service's).
        starts: as for ``DockerBackend``.
    """

    name: ClassVar[str] = "podman"
    product: ClassVar[Product] = PODMAN
