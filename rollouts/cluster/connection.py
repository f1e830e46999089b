"""The connection of this process to a Ray cluster: found or started, checked, and left as it was."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

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


@dataclass(frozen=True, slots=True)
class Needs:
    """Workers or servers that a run places on a cluster.

    Args:
        what: one of them, for messages: ``worker`` or ``server``.
        table: table of the settings that ask for it.
        resources: resources of one.
        count: number of them, on one machine.
    """

    what: str
    table: str
    resources: Mapping[str, float]
    count: int

    @classmethod
    def of_workers(cls, config: RolloutsConfig) -> Self:
        """Return the needs of workers that play."""
        return cls("worker", "rollouts", config.resources, config.workers_per_node or config.workers)


class ClusterConnection:
    """This process as a driver of a Ray cluster.

    A cluster that it starts listens on the loopback interface only, and ends with it, also if the process is killed.
    A process that is connected already stays connected to that cluster.

    Args:
        address: address of the cluster, or ``local`` to start one.
        needs: workers and servers of the run.
        object_store: bytes of the object store of a cluster that it starts.

    Raises:
        UsageError: there is no cluster at the address, it cannot be joined, or no node can have what is needed.
    """

    def __init__(self, address: str, *needs: Needs, object_store: int) -> None:
        self._address, self._needs, self._object_store = address, needs, object_store
        self._folder: Path | None = None
        self._ours = not ray.is_initialized()
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            with _own_sigterm():
                if self._ours and address == "local":
                    self._start()
                elif self._ours:
                    self._join()
            self._check_resources()
        except BaseException:  # also Ctrl-C while it starts
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
        wanted = sum(need.count * need.resources.get("CPU", 0.0) for need in self._needs)
        # Ray says at every start that it protects the cluster by a token, and how to turn that off.
        logging.getLogger("ray._private.authentication").setLevel(logging.ERROR)
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=_short()))
        try:
            ray.init(
                address="local",
                num_cpus=max(os.cpu_count() or 1, math.ceil(wanted)),
                object_store_memory=self._object_store,
                _temp_dir=str(self._folder),
                _node_ip_address=LOOPBACK,
                **QUIET,
            )
        except Exception as error:
            self.close()
            raise UsageError(f"Ray cannot start a cluster on this machine: {_line(error)}") from error
        event(LOG, "start", "started a Ray cluster on this machine", {"folder": str(self._folder)})

    def _join(self) -> None:
        address, table = self._address, self._needs[0].table if self._needs else "rollouts"
        start = f"start one with `ray start --head`, or set {table}.address = 'local'"
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
        """Refuse what no node can ever have; whether its resources are free now is another question."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for need in self._needs:
            wanted = {name: amount for name, amount in need.resources.items() if amount}
            for name in wanted:
                if not any(name in node for node in nodes):
                    known = ", ".join(sorted({each for node in nodes for each in node if not _internal(each)}))
                    raise UsageError(f"no node of the cluster has the resource {name!r}; its nodes have {known}")
            if not any(all(node.get(name, 0.0) >= amount for name, amount in wanted.items()) for node in nodes):
                shown = ", ".join(f"{amount:g} {name}" for name, amount in wanted.items())
                raise UsageError(
                    f"no node of the cluster has {shown}, which {need.table}.resources asks for one {need.what}"
                )


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep this process's handler of SIGTERM, which Ray replaces by one that exits at once."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


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
