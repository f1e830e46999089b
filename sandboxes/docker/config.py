"""The configuration of a container, with its confinement, as the JSON of the Docker Engine API."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ..spec import Mount, SandboxSpec

Config = dict[str, Any]
PERIOD = 100_000
"""Microseconds over which processor time is allotted."""
LEAST_QUOTA = 1000
"""Microseconds; the kernel accepts no less."""
USERS = range(61184, 65520)
"""User ids that systemd keeps for short-lived processes, so that they belong to no user."""
OWN_PROCESSES = 1
"""The runner, which is not counted against the sandbox's limit."""
FILES = 1024
"""Files that a process may have open."""
NOTHING: Mapping[str, Any] = {
    "NetworkMode": "none",
    "Dns": ["127.0.0.1"],  # otherwise the host's resolver is named in /etc/resolv.conf
    "DnsSearch": ["."],
    "IpcMode": "private",
    "CgroupnsMode": "private",
    "Privileged": False,
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges:true"],  # the engine's own seccomp profile stays on
    "ReadonlyRootfs": True,
    "Init": False,  # the runner is the first process and reaps
    "AutoRemove": False,  # a dead container must still report why it died
    "RestartPolicy": {"Name": "no"},
    "LogConfig": {"Type": "none"},  # what it writes would otherwise fill the engine's disk
}
"""Settings that confine every sandbox, independent of its spec."""
OURS = ("runc", "crun")
"""Runtimes whose containers run on the machine's own kernel."""
SYSCTLS: Mapping[str, Any] = {"Sysctls": {"kernel.shmmax": "0", "kernel.msgmni": "0"}}
"""No shared memory and no messages without a process: they would use up the machine's memory. A runtime with a kernel
of its own may refuse such settings, and does not need them: its memory is that of its process."""


def any_user() -> int:
    """Draw a user id for a sandbox. If two get the same by chance, they still see neither each other's processes nor
    files; they share only the kernel's counters per user (pending signals, file watches).
    """
    return USERS.start + secrets.randbelow(len(USERS))


def container_config(
    spec: SandboxSpec,
    *,
    image: str,
    command: Sequence[str],
    user: int,
    labels: Mapping[str, str],
    volumes: Sequence[str] = (),
    runtime: str | None = None,
) -> Config:
    """Return the body of ``POST /containers/create`` for a sandbox.

    Its root is read-only and belongs to the image. Writable folders are in memory, with limits on bytes and files, and
    count against the sandbox's memory. It cannot use the engine's disk.

    Args:
        spec: specification of the sandbox.
        image: id of the image.
        command: program and arguments of its first process.
        user: id of the user and group of everything in it.
        labels: labels to find it by.
        volumes: folders that the image declares as volumes; they are in memory like all writable folders.
        runtime: container runtime, e.g. ``runsc`` (default: the engine's).
    """
    shared = {place: tmpfs(spec, user, 0o1777) for place in ("/tmp", "/dev/shm", *volumes)}
    confined = {
        **NOTHING,
        **limits(spec),
        "Tmpfs": {**shared, spec.workdir: tmpfs(spec, user, 0o700)},
        "Mounts": [bind(mount) for mount in spec.mounts],
        **(SYSCTLS if runtime is None or runtime in OURS else {}),
    }
    return {
        "Image": image,
        "Entrypoint": list(command),
        "Cmd": [],
        "User": f"{user}:{user}",
        "WorkingDir": spec.workdir,
        "Hostname": "sandbox",
        "Labels": dict(labels),
        "OpenStdin": True,
        "StdinOnce": True,  # the end of the one connection ends its input, also when the owner is killed
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "NetworkDisabled": True,
        "StopSignal": "SIGKILL",  # the runner ignores the others
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {**confined, "Runtime": runtime} if runtime else confined,
    }


def limits(spec: SandboxSpec) -> Config:
    """Return the limits that the kernel enforces."""
    asked = spec.limits
    return {
        "Memory": asked.memory,
        "MemorySwap": asked.memory,  # memory and swap together: no swap
        "PidsLimit": asked.pids + OWN_PROCESSES,
        "CpuPeriod": PERIOD,
        "CpuQuota": max(LEAST_QUOTA, round(asked.cpus * PERIOD)),
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": FILES, "Hard": FILES},
        ],
    }


def tmpfs(spec: SandboxSpec, user: int, mode: int) -> str:
    """Return options of a directory in memory, with its limits on bytes and files."""
    sizes = f"size={spec.limits.disk},nr_inodes={spec.limits.inodes}"
    return f"rw,exec,nosuid,nodev,{sizes},mode={mode:o},uid={user},gid={user}"


def bind(mount: Mount) -> Config:
    """Return a read-only folder of the host; mounts below it are hidden, since they would stay writable."""
    options = {"Propagation": "rprivate", "NonRecursive": True}
    return {
        "Type": "bind",
        "Source": str(mount.source),
        "Target": str(mount.target),
        "ReadOnly": True,
        "BindOptions": options,
    }
