"""Limits of the sandboxes of a task."""

from __future__ import annotations

from collections.abc import Mapping

from ...sandboxes.spec import MIB, Limits, SandboxSpec
from .config import EnvironmentTable
from .images import Place

MEMORY, STORAGE = 2048, 10_240
"""Limits in MiB that hold where a task names none."""
PIDS, INODES = 256, 100_000
SLACK = 120.0
"""Seconds that a sandbox lives beyond its work."""


def spec_of(place: Place, table: EnvironmentTable, env: Mapping[str, str], seconds: float) -> SandboxSpec:
    """Return the specification of a sandbox.

    Its files are in memory, so that ``storage_mb`` beyond ``memory_mb`` has no effect.

    Args:
        place: its image.
        table: limits that the task names.
        env: environment variables besides those of the image.
        seconds: seconds of work.
    """
    memory = table.memory_mb or MEMORY
    limits = Limits(
        memory=memory * MIB,
        disk=min(table.storage_mb or STORAGE, memory) * MIB,
        inodes=INODES,
        pids=PIDS,
        cpus=table.cpus or 1.0,
        lifetime=seconds + SLACK,
    )
    return SandboxSpec(image=place.image, workdir=place.workdir, env={**place.env, **env}, limits=limits)
