"""The configuration of a container for Podman: Docker's, translated into Podman's own API.

Podman also speaks Docker's API, but reads a container's configuration less exactly there. A folder in memory has no
limit on its files and no owner, and others without any limit may be added. The host's proxy settings and resolver get
in.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from ..docker.config import Config

PROCESSES = 1 << 14
"""Processes of one user on the machine. The control group limits a sandbox; without a number, Podman raises the limit
of its own process, which may not be allowed."""


def podman_config(config: Mapping[str, Any]) -> Config:
    """Return the body of ``POST /libpod/containers/create``.

    Args:
        config: body of Docker's ``POST /containers/create``, from ``container_config``.
    """
    host = config["HostConfig"]
    private = {"nsmode": "private"}
    return {
        "image": config["Image"],
        "entrypoint": config["Entrypoint"],
        "command": config["Cmd"],
        "user": config["User"],
        "work_dir": config["WorkingDir"],
        "hostname": config["Hostname"],
        "labels": config["Labels"],
        "stdin": config["OpenStdin"],
        "terminal": config["Tty"],
        "stop_signal": int(signal.Signals[config["StopSignal"]]),
        "stop_timeout": 0,
        "healthconfig": config["Healthcheck"],
        "log_configuration": {"driver": host["LogConfig"]["Type"]},
        "restart_policy": host["RestartPolicy"]["Name"],
        **dict.fromkeys(("pidns", "utsns", "ipcns", "cgroupns"), private),
        "netns": {"nsmode": "none"},
        "privileged": host["Privileged"],
        "cap_drop": host["CapDrop"],
        "no_new_privileges": True,
        "read_only_filesystem": host["ReadonlyRootfs"],
        "read_write_tmpfs": False,
        "image_volume_mode": "ignore",
        "systemd": "false",
        "init": host["Init"],
        "remove": host["AutoRemove"],
        "env_host": False,
        "httpproxy": False,
        "use_image_resolve_conf": True,
        "use_image_hosts": True,
        "mounts": [*(tmpfs(*each) for each in host["Tmpfs"].items()), *map(bind, host["Mounts"])],
        "sysctl": host.get("Sysctls", {}),
        "r_limits": rlimits(host["Ulimits"]),
        "resource_limits": {
            "memory": {"limit": host["Memory"], "swap": host["MemorySwap"]},
            "pids": {"limit": host["PidsLimit"]},
            "cpu": {"period": host["CpuPeriod"], "quota": host["CpuQuota"]},
        },
        **({"oci_runtime": host["Runtime"]} if "Runtime" in host else {}),
    }


def tmpfs(place: str, options: str) -> Config:
    """Return a folder in memory.

    Podman knows only the options size and mode of such folders. What stands behind the size in the same word goes to
    the kernel with it.

    Args:
        place: path of the folder.
        options: Docker's options for it, which ``docker.config.tmpfs`` writes.
    """
    words = options.split(",")
    sized = [word for word in words if word.partition("=")[0] in ("size", "nr_inodes", "uid", "gid")]
    rest = [word for word in words if word not in sized]
    return {
        "type": "tmpfs",
        "source": "tmpfs",
        "destination": place,
        "options": [*rest, ",".join(sized), "notmpcopyup"],
    }


def bind(mount: Mapping[str, Any]) -> Config:
    """Return a read-only folder of the host, without the mounts below it."""
    return {
        "type": "bind",
        "source": mount["Source"],
        "destination": mount["Target"],
        "options": ["ro", "bind", mount["BindOptions"]["Propagation"]],
    }


def rlimits(ulimits: Sequence[Mapping[str, Any]]) -> list[Config]:
    """Return the limits of each process."""
    given = [(str(each["Name"]), each["Soft"], each["Hard"]) for each in ulimits]
    return [
        {"type": name, "soft": soft, "hard": hard} for name, soft, hard in (*given, ("nproc", PROCESSES, PROCESSES))
    ]
