"""Containers of sandboxes on an engine: create, inspect, find and remove them. All calls here block."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import SandboxError
from ..result import Stats
from ..runner.processes import Owner, this_process
from .config import Config

if TYPE_CHECKING:
    from docker import APIClient

OWNER = "turnwise.owner"
"""Label: the process that owns the sandbox, as ``pid:start``."""
MACHINE = "turnwise.machine"
"""Label: the machine of that process, since a process id means nothing elsewhere."""
UNTIL = "turnwise.until"
"""Label: seconds since 1970 after which the sandbox is abandoned, even if its owner lives."""
GRACE = 60.0
"""Seconds beyond a sandbox's lifetime in which its owner may still remove it."""
PATIENCE = 30.0
"""Seconds that the engine may take to remove a container."""


@dataclass(frozen=True, slots=True)
class State:
    """An engine's record of a container.

    Args:
        running: whether it runs.
        pid: id of its first process on the engine's machine; 0 if it does not run.
        exit_code: exit code that it ended with.
        out_of_memory: whether the kernel killed its first process for memory.
    """

    running: bool
    pid: int
    exit_code: int
    out_of_memory: bool


def labels(lifetime: float) -> dict[str, str]:
    """Return labels that identify a container of this process, even after the process has died.

    Args:
        lifetime: seconds for which it may be needed.
    """
    owner, until = this_process(), int(time.time() + lifetime + GRACE)
    return {OWNER: f"{owner.pid}:{owner.started}", MACHINE: machine(), UNTIL: str(until)}


@lru_cache(maxsize=1)
def machine() -> str:
    """Identify this machine since its start, as far as process ids are shared: a container has its own."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"


def make(api: APIClient, config: Config) -> str:
    """Create a container without starting it; return its id."""
    untyped: Any = api
    return str(untyped.create_container_from_config(config)["Id"])


def start(api: APIClient, container: str) -> int:
    """Start it; return its first process's id on the engine's machine, or 0 if that has ended already."""
    api.start(container)
    found = state(api, container)
    return found.pid if found else 0


def exit_code(api: APIClient, container: str) -> int | None:
    """Run a new container to its end.

    Returns:
        Its exit code; ``None`` if there is no such program.
    """
    import docker

    try:
        api.start(container)
        return int(api.wait(container)["StatusCode"])
    except docker.errors.APIError as error:
        if "not found" in str(error.explanation):
            return None
        raise


def state(api: APIClient, container: str) -> State | None:
    """Return the engine's record of it; ``None`` if it no longer exists."""
    import docker

    try:
        found = api.inspect_container(container)["State"]
    except docker.errors.NotFound:
        return None
    return State(found["Running"], found["Pid"], found["ExitCode"], found["OOMKilled"])


def usage(api: APIClient, container: str, seconds: float) -> Stats:
    """Return its usage, as the engine reports it.

    Args:
        api: client of the engine.
        container: id of the container.
        seconds: seconds since it was created.
    """
    stats: dict[str, Any] = api.stats(container, stream=False, one_shot=True)
    memory, processor = stats.get("memory_stats", {}), stats.get("cpu_stats", {}).get("cpu_usage", {})
    nanoseconds = processor.get("total_usage")
    return Stats(
        memory=memory.get("usage"),
        memory_peak=memory.get("max_usage"),
        pids=stats.get("pids_stats", {}).get("current"),
        cpu_seconds=None if nanoseconds is None else nanoseconds / 1e9,
        oom_kills=None,
        seconds=seconds,
    )


def remove(api: APIClient, container: str) -> bool:
    """Kill everything in it and remove it with its volumes; return whether it existed.

    Raises:
        SandboxError: it still exists after half a minute.
    """
    import docker

    was_there = False
    until = time.monotonic() + PATIENCE
    while state(api, container) is not None:
        was_there = True
        if time.monotonic() > until:
            raise SandboxError(f"the container {container[:12]} still exists {PATIENCE:g} s after its removal")
        try:
            api.remove_container(container, force=True, v=True)
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError as error:
            if error.status_code != 409:  # another process is removing it
                raise
            time.sleep(0.05)
    return was_there


def abandoned(api: APIClient) -> list[str]:
    """Return containers of sandboxes whose owner has died, or whose time has passed."""
    found = api.containers(all=True, filters={"label": OWNER})
    return [str(each["Id"]) for each in found if is_abandoned(each["Labels"], time.time())]


def is_abandoned(known: dict[str, str], now: float) -> bool:
    """Whether the labels of a container show that it is abandoned. Owners on other machines cannot be checked, so only
    the time decides for them.

    Args:
        known: labels of the container.
        now: seconds since 1970.
    """
    pid, _, start = known.get(OWNER, "").partition(":")
    until = known.get(UNTIL, "")
    if known.get(MACHINE) == machine() and pid.isdigit() and start.isdigit() and not Owner(int(pid), int(start)).alive:
        return True
    return until.isdigit() and now > int(until)
