"""What an engine is told to run: the confinement of a container, as the JSON of the Docker Engine API."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ..spec import Mount, SandboxSpec

Config = dict[str, Any]
PERIOD = 100_000
"""Microseconds over which processor time is counted out."""
LEAST_QUOTA = 1000
"""Microseconds; the kernel takes no less."""
USERS = range(61184, 65520)
"""User ids that systemd keeps for processes that come and go, so that they belong to no person."""
OWN_PROCESSES = 1
"""The runner, which the sandbox's processes are not to pay for."""
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
    "AutoRemove": False,  # why it died is asked afterwards
    "RestartPolicy": {"Name": "no"},
    "LogConfig": {"Type": "none"},  # what it writes would otherwise fill the engine's disk
}
"""What no sandbox can reach, gain or leave, whatever its spec."""
OURS = ("runc", "crun")
"""Runtimes whose containers run on the machine's own kernel."""
SYSCTLS: Mapping[str, Any] = {"Sysctls": {"kernel.shmmax": "0", "kernel.msgmni": "0"}}
"""No shared memory and no messages that no process holds: they would use up the machine's memory. A runtime that has a
kernel of its own may refuse such settings, and does not need them: all that it holds is the memory of its process."""


def any_user() -> int:
    """A user for a sandbox. Two may get the same by chance: they see each other's processes and files all the same not;
    what the kernel counts by user (signals that wait, watches of files) they would share.
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
    """The body of ``POST /containers/create`` for a sandbox.

    Its root is read-only and belongs to the image; what can be written is in memory, limited in bytes and files and
    counted against the sandbox's memory. Of the engine's disk it can use nothing.

    Args:
        spec: what is asked for.
        image: the id of the image.
        command: the program that is its first process, with arguments.
        user: the number of the user and group that everything in it runs as.
        labels: what it is known by.
        volumes: folders for which the image asks for volumes; they are in memory like all that can be written.
        runtime: another than the engine's own, e.g. ``runsc``.
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
    """The part that the kernel counts."""
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
    """Options of a directory in memory, which holds so many bytes and files."""
    sizes = f"size={spec.limits.disk},nr_inodes={spec.limits.inodes}"
    return f"rw,exec,nosuid,nodev,{sizes},mode={mode:o},uid={user},gid={user}"


def bind(mount: Mount) -> Config:
    """A folder of the host, read-only; what is mounted below it is not seen, since it would stay writable."""
    options = {"Propagation": "rprivate", "NonRecursive": True}
    return {
        "Type": "bind",
        "Source": str(mount.source),
        "Target": str(mount.target),
        "ReadOnly": True,
        "BindOptions": options,
    }
