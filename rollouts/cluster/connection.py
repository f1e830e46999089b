"""The connection of this process to a Ray cluster: found or started, checked, and left as it was."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

import ray

from ...errors import UsageError
from ...logs import event
from ..options import RolloutsConfig

LOG = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
ANSWER = 10.0
"""Seconds for the head of a cluster to accept a connection."""
GREETING, SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), 4
"""Bytes with which a client of gRPC begins, and the kind of frame with which a server answers (RFC 9113, 3.4)."""
FOLDER = "turnwise-ray-"
QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "include_dashboard": False}
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Send no statistics, and follow the future behavior that a warning announces."""


class ClusterConnection:
    """This process as a driver of a Ray cluster.

    A cluster that it starts listens on the loopback interface only, and ends with it, also if the process is killed.

    Args:
        config: settings of the rollouts.

    Raises:
        UsageError: there is no cluster at the address, it cannot be joined, or no node can have a worker.
    """

    def __init__(self, config: RolloutsConfig) -> None:
        self._config = config
        self._folder: Path | None = None
        self._ours = not ray.is_initialized()
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        if self._ours and config.address == "local":
            self._start()
        elif self._ours:
            self._join()
        try:
            self._check_resources()
        except UsageError:
            self.close()
            raise

    @property
    def host(self) -> str:
        """Address under which other nodes of the cluster reach this process."""
        return str(ray.util.get_node_ip_address())

    def close(self) -> None:
        """Leave the cluster; one that this process started ends."""
        if self._ours and ray.is_initialized():
            ray.shutdown()
        self._ours = False
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _start(self) -> None:
        config, needs = self._config, self._config.resources
        workers = config.workers_per_node or config.workers
        # Ray says at every start that it protects the cluster by a token, and how to turn that off.
        logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=_short()))
        try:
            ray.init(
                address="local",
                num_cpus=max(os.cpu_count() or 1, math.ceil(workers * needs.get("CPU", 0.0))),
                object_store_memory=config.object_store,
                _temp_dir=str(self._folder),
                _node_ip_address=LOOPBACK,
                **QUIET,
            )
        except Exception as error:
            self.close()
            raise UsageError(f"Ray cannot start a cluster on this machine: {_line(error)}") from error
        event(LOG, "start", "started a Ray cluster on this machine", {"folder": str(self._folder)})

    def _join(self) -> None:
        address = self._config.address
        start = "start one with `ray start --head`, or set rollouts.address = 'local'"
        head = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
        host, colon, port = head.removeprefix("ray://").rpartition(":")
        try:
            if colon and port.isdigit():
                _check_head(host.strip("[]"), int(port))
            ray.init(address=address, **{**QUIET, "include_dashboard": None})
        except RuntimeError as error:
            self.close()
            if "Version mismatch" in str(error):
                found = re.findall(r"Ray: (\S+)\s+Python: (\S+)", str(error))
                versions = " and ".join(f"Ray {of} with Python {python}" for of, python in found)
                raise UsageError(
                    f"the cluster at {address} and this process differ: {versions}; install the same versions"
                ) from None
            raise UsageError(f"cannot join the Ray cluster at {address!r}: {_line(error)}") from error
        except Exception as error:
            self.close()
            raise UsageError(f"there is no Ray cluster at {address!r} ({_line(error)}); {start}") from error

    def _check_resources(self) -> None:
        """Refuse workers that no node can ever have; whether they are free now is another question."""
        needs = {name: amount for name, amount in self._config.resources.items() if amount}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for name in needs:
            if not any(name in node for node in nodes):
                known = ", ".join(sorted({each for node in nodes for each in node if not _internal(each)}))
                raise UsageError(f"no node of the cluster has the resource {name!r}; its nodes have {known}")
        if not any(all(node.get(name, 0.0) >= amount for name, amount in needs.items()) for node in nodes):
            wanted = ", ".join(f"{amount:g} {name}" for name, amount in needs.items())
            raise UsageError(f"no node of the cluster has {wanted}, which rollouts.resources asks for one worker")


def _check_head(host: str, port: int) -> None:
    """Check that a head answers. Ray itself would try for minutes, and write lines of its own on standard error.

    Raises:
        OSError: there is none, or it is something else.
    """
    with socket.create_connection((host, port), timeout=ANSWER) as peer:
        if os.environ.get("RAY_USE_TLS", "0") != "0":  # which begins differently
            return
        peer.sendall(GREETING)
        answer = peer.makefile("rb").read(9)
        if len(answer) < 9 or answer[3] != SETTINGS:
            raise ConnectionError("the program that listens there is not the head of a Ray cluster")


def _internal(resource: str) -> bool:
    return resource.startswith("node:") or resource == "object_store_memory"


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _short() -> str | None:
    """Return a folder whose path leaves room for Ray's sockets, which may have 107 bytes in all."""
    return None if len(tempfile.gettempdir()) < 20 else "/tmp"


def _remove_abandoned() -> None:
    """Remove the folders of processes that were killed."""
    for folder in Path(_short() or tempfile.gettempdir()).glob(f"{FOLDER}*"):
        owner = folder.name.removeprefix(FOLDER).partition("-")[0]
        with contextlib.suppress(ValueError, PermissionError):
            try:
                os.kill(int(owner), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)
