"""Containers of sandboxes on an engine: made, asked about, found again and removed. Everything here blocks."""

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
"""The process that holds the sandbox: ``pid:start``."""
MACHINE = "turnwise.machine"
"""Where that process is: a number means nothing elsewhere."""
UNTIL = "turnwise.until"
"""Seconds since 1970 after which the sandbox is nobody's, whoever its owner is."""
GRACE = 60.0
"""Seconds beyond a sandbox's lifetime in which its owner may still remove it."""
PATIENCE = 30.0
"""Seconds that the engine may take to remove a container."""


@dataclass(frozen=True, slots=True)
class State:
    """What an engine knows of a container.

    Args:
        running: whether it runs.
        pid: of its first process, on the engine's machine; 0 if it does not run.
        exit_code: that it ended with.
        out_of_memory: whether the kernel killed its first process for memory.
    """

    running: bool
    pid: int
    exit_code: int
    out_of_memory: bool


def labels(lifetime: float) -> dict[str, str]:
    """What a container of this process is found by, whatever becomes of the process.

    Args:
        lifetime: seconds for which it may be wanted.
    """
    owner, until = this_process(), int(time.time() + lifetime + GRACE)
    return {OWNER: f"{owner.pid}:{owner.started}", MACHINE: machine(), UNTIL: str(until)}


@lru_cache(maxsize=1)
def machine() -> str:
    """This machine since it was started, as far as process numbers mean the same: a container has its own."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"


def make(api: APIClient, config: Config) -> str:
    """The id of a new container that is not started."""
    untyped: Any = api
    return str(untyped.create_container_from_config(config)["Id"])


def start(api: APIClient, container: str) -> int:
    """Start it; returns the number of its first process on the engine's machine, 0 if it has ended already."""
    api.start(container)
    found = state(api, container)
    return found.pid if found else 0


def exit_code(api: APIClient, container: str) -> int | None:
    """Run a container that was made to its end.

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
    """What the engine knows of it; ``None`` if it is gone."""
    import docker

    try:
        found = api.inspect_container(container)["State"]
    except docker.errors.NotFound:
        return None
    return State(found["Running"], found["Pid"], found["ExitCode"], found["OOMKilled"])


def usage(api: APIClient, container: str, seconds: float) -> Stats:
    """What it uses, as the engine tells.

    Args:
        api: of the engine.
        container: its id.
        seconds: since it was created.
    """
    told: dict[str, Any] = api.stats(container, stream=False, one_shot=True)
    memory, processor = told.get("memory_stats", {}), told.get("cpu_stats", {}).get("cpu_usage", {})
    nanoseconds = processor.get("total_usage")
    return Stats(
        memory=memory.get("usage"),
        memory_peak=memory.get("max_usage"),
        pids=told.get("pids_stats", {}).get("current"),
        cpu_seconds=None if nanoseconds is None else nanoseconds / 1e9,
        oom_kills=None,
        seconds=seconds,
    )


def remove(api: APIClient, container: str) -> bool:
    """Kill whatever runs in it and remove it with its volumes; returns when it is gone, and whether it was there.

    Raises:
        SandboxError: it is still there after half a minute.
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
            if error.status_code != 409:  # somebody else removes it
                raise
            time.sleep(0.05)
    return was_there


def abandoned(api: APIClient) -> list[str]:
    """Containers of sandboxes whose owner is gone, or whose time is over."""
    found = api.containers(all=True, filters={"label": OWNER})
    return [str(each["Id"]) for each in found if is_abandoned(each["Labels"], time.time())]


def is_abandoned(known: dict[str, str], now: float) -> bool:
    """Whether the labels of a container say that nobody has it. Of processes of other machines nothing is known, so
    that only time tells.

    Args:
        known: its labels.
        now: seconds since 1970.
    """
    pid, _, start = known.get(OWNER, "").partition(":")
    until = known.get(UNTIL, "")
    if known.get(MACHINE) == machine() and pid.isdigit() and start.isdigit() and not Owner(int(pid), int(start)).alive:
        return True
    return until.isdigit() and now > int(until)
