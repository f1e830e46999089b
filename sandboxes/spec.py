"""Specification of a sandbox: its limits, and the parts of the host that it sees."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Self

import pydantic

from ..config import Config

KIB, MIB = 1024, 1024 * 1024


class Limit(StrEnum):
    """A resource that can be limited: the names of the fields of ``Limits``."""

    MEMORY = "memory"
    PIDS = "pids"
    CPUS = "cpus"
    DISK = "disk"
    INODES = "inodes"
    OUTPUT = "output"
    LIFETIME = "lifetime"
    NETWORK = "network"
    """Isolation from networks: not a field of ``Limits``, because it is not a number, but enforced or not like them."""


class Limits(Config):
    """Limits of a sandbox. A backend that cannot enforce one refuses the sandbox, unless the limit is relaxed."""

    memory: int = pydantic.Field(default=512 * MIB, ge=16 * MIB)
    """Bytes of memory of all its processes together, including its files, which are in memory."""
    pids: int = pydantic.Field(default=64, ge=4)
    """Processes and threads at a time."""
    cpus: float = pydantic.Field(default=1.0, gt=0)
    """Processor seconds per second."""
    disk: int = pydantic.Field(default=64 * MIB, ge=64 * KIB)
    """Bytes of files in the working directory; ``/tmp`` may hold as many again."""
    inodes: int = pydantic.Field(default=16_384, ge=64)
    """Files and directories in the working directory."""
    output: int = pydantic.Field(default=256 * KIB, ge=256)
    """Bytes of each output stream in a result: half from the beginning, half from the end."""
    lifetime: float = pydantic.Field(default=3600.0, gt=0)
    """Seconds after which it is destroyed, even if it is in use."""


class Mount(Config):
    """A folder or file of the host that the sandbox can read but never write."""

    source: Path
    """Absolute path on the host."""
    target: PurePosixPath
    """Absolute path inside."""

    @pydantic.model_validator(mode="after")
    def _absolute(self) -> Self:
        for name, path in (("source", self.source), ("target", self.target)):
            if not path.is_absolute() or ".." in path.parts:
                raise ValueError(f"the {name} of a mount must be an absolute path without '..'; got {path}")
        return self


class SandboxSpec(Config):
    """Specification of a sandbox. No sandbox has a network."""

    image: str | None = None
    """File system of the sandbox: an image by digest or name for docker, the folder of a root for bubblewrap (default:
    this machine's own programs, read-only)."""
    workdir: str = "/work"
    """Directory where commands run and files are stored; apart from ``/tmp``, the only writable place."""
    env: dict[str, str] = pydantic.Field(default_factory=dict)
    """Environment variables. The host's environment is not inherited."""
    limits: Limits = Limits()
    """Resource limits."""
    mounts: tuple[Mount, ...] = ()
    """Parts of the host that it can read in addition to its image."""
    relaxed: frozenset[Limit] = frozenset()
    """Limits that may go unenforced if the backend or the machine cannot enforce them; all others are required."""

    @pydantic.field_validator("workdir")
    @classmethod
    def _plain(cls, value: str) -> str:
        path = PurePosixPath(value)
        if not path.is_absolute() or ".." in path.parts or len(path.parts) != 2 or value != str(path):
            raise ValueError(f"workdir must be a directory right below /, such as /work; got {value!r}")
        if value in RESERVED:
            raise ValueError(f"workdir {value} belongs to the system; choose another, such as /work")
        return value

    @pydantic.field_validator("env")
    @classmethod
    def _named(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not name or "=" in name or "\0" in name + text:
                raise ValueError(f"{name!r} is not a valid environment variable")
        return value


SYSTEM = "bin dev etc home lib lib64 opt proc root run sbin sys tmp usr var"
RESERVED = frozenset(f"/{name}" for name in SYSTEM.split(" "))
