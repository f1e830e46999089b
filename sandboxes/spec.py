"""What a sandbox is asked to be: its limits, and what it sees of the host."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Self

import pydantic

from ..config import Config

KIB, MIB = 1024, 1024 * 1024


class Limit(StrEnum):
    """What can be limited; the fields of ``Limits`` by name."""

    MEMORY = "memory"
    PIDS = "pids"
    CPUS = "cpus"
    DISK = "disk"
    INODES = "inodes"
    OUTPUT = "output"
    LIFETIME = "lifetime"
    NETWORK = "network"
    """No way out: not a number, and so no field of ``Limits``, but it can be enforced or not like them."""


class Limits(Config):
    """The most that a sandbox may use. A backend that cannot enforce one refuses the sandbox, unless it is relaxed."""

    memory: int = pydantic.Field(default=512 * MIB, ge=16 * MIB)
    """Bytes of memory of all its processes together, with the files in it, which live in memory."""
    pids: int = pydantic.Field(default=64, ge=4)
    """Processes and threads at a time."""
    cpus: float = pydantic.Field(default=1.0, gt=0)
    """Processor seconds per second."""
    disk: int = pydantic.Field(default=64 * MIB, ge=64 * KIB)
    """Bytes of files in the working directory; ``/tmp`` may hold as many again."""
    inodes: int = pydantic.Field(default=16_384, ge=64)
    """Files and directories in the working directory."""
    output: int = pydantic.Field(default=256 * KIB, ge=256)
    """Bytes of each output stream that a result keeps, half of the beginning and half of the end."""
    lifetime: float = pydantic.Field(default=3600.0, gt=0)
    """Seconds after which it is destroyed, whoever still holds it."""


class Mount(Config):
    """A folder or file of the host that the sandbox can read and never write."""

    source: Path
    """On the host; absolute."""
    target: PurePosixPath
    """Inside; absolute."""

    @pydantic.model_validator(mode="after")
    def _absolute(self) -> Self:
        for name, path in (("source", self.source), ("target", self.target)):
            if not path.is_absolute() or ".." in path.parts:
                raise ValueError(f"the {name} of a mount must be an absolute path without '..'; got {path}")
        return self


class SandboxSpec(Config):
    """What a sandbox is asked to be. There is no network in any sandbox."""

    image: str | None = None
    """The file system that it runs on: an image by digest or name for docker, the folder of a root for bubblewrap;
    omitted: this machine's own programs, read-only."""
    workdir: str = "/work"
    """Where commands run and files lie; the one place, beside ``/tmp``, that can be written."""
    env: dict[str, str] = pydantic.Field(default_factory=dict)
    """Environment variables. Nothing of the host's environment comes in by itself."""
    limits: Limits = Limits()
    """The most that it may use."""
    mounts: tuple[Mount, ...] = ()
    """What it can read of the host beside its image."""
    relaxed: frozenset[Limit] = frozenset()
    """Limits that may go unenforced where the backend or the machine cannot hold them; all others are demanded."""

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
