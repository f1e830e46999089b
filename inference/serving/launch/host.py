"""``ServerHost``: keeps one vLLM server alive on the machine where it runs; a cluster makes it an actor."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

from ....errors import InfrastructureError, UsageError
from .process import ServerOptions, VllmProcess, healthy
from .receiver import MODEL, Receiver

LOOK = 1.0
"""Seconds between two checks of the server."""
LONGEST_PAUSE = 60.0
"""Maximum seconds between two starts of a server that keeps ending."""
FRUITLESS = 2
"""Number of starts in a row that fail, after which a run that waits for its first servers gives up."""

Listing = Mapping[str, tuple[int, int]]
"""Size in bytes and time of the last change in nanoseconds of each file of a folder."""


class HostState(StrEnum):
    """States of a host."""

    LACKS_MODEL = "lacks the model"
    """The folder of the model is not on this machine; the driver has to send it."""
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    """The server cannot start here, whatever one waits."""


@dataclass(frozen=True, slots=True)
class HostStatus:
    """The state of a host.

    Args:
        state: present state.
        said: reason why its server does not answer, or did not last; empty if there is none.
        url: URL of the server, once it is ready.
        receiver: URL of the receiver of files.
        key: key of the receiver.
        machine: name or address of its machine, for messages.
        pid: id of its process.
        starts: number of times that the server became ready.
        failures: number of starts in a row that failed.
        turnwise: version of Turnwise there.
    """

    state: HostState
    said: str
    url: str
    receiver: str
    key: str
    machine: str
    pid: int
    starts: int
    failures: int
    turnwise: str


@dataclass(frozen=True, slots=True)
class HostOptions:
    """How to serve one model.

    Args:
        model: folder of the model on the driver's machine, which this one may see.
        listing: its files.
        options: options of the server; its ``host`` is replaced.
        python: interpreter that has vLLM there; empty for the host's own.
        start_timeout: seconds to become healthy.
        health_timeout: seconds without a healthy answer, after which the server is started again.
    """

    model: str
    listing: Listing
    options: ServerOptions
    python: str = ""
    start_timeout: float = 600.0
    health_timeout: float = 120.0


class ServerHost:
    """One server, started, watched and started again in a thread; its methods return at once.

    When its process ends in any way, the server does too (``watchdog.py``).

    Args:
        options: how to serve the model.
        address: address of this machine under which driver and workers reach it; loopback by default.
    """

    def __init__(self, options: HostOptions, address: str = "127.0.0.1") -> None:
        self._options, self._address = options, address
        self._folder = Path(tempfile.mkdtemp(prefix=f"turnwise-replica-{os.getpid()}-"))
        self._receiver = Receiver(self._folder, address, secrets.token_hex(16))
        self._state, self._said, self._url = HostState.STARTING, "", ""
        self._starts = self._failures = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="turnwise-server")
        self._thread.start()

    def status(self) -> HostStatus:
        """Return the present state."""
        return HostStatus(
            self._state,
            self._said,
            self._url,
            self._receiver.url,
            self._receiver.key,
            f"{socket.gethostname()} ({self._address})",
            os.getpid(),
            self._starts,
            self._failures,
            version("turnwise"),
        )

    def find(self, folder: str, entry: str, listing: Listing) -> str:
        """Return the path of a folder of the driver on this machine: the same, if both see it, or a received one.

        Args:
            folder: path on the driver's machine; nothing if only a received one counts.
            entry: name under which it would be received.
            listing: its files; a folder with others is another one.

        Returns:
            the path, or nothing if the folder is not here.
        """
        with contextlib.suppress(OSError):
            if folder and listing and listing_of(folder) == dict(listing):
                return folder
        found = self._receiver.entry(entry)
        return str(found) if found is not None else ""

    def kill_server(self) -> None:
        """Kill the server like a crash, for tests of what then happens."""
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """Stop the server, and remove what was received."""
        self._end.set()
        if self._state is HostState.STARTING:
            self.kill_server()
        self._thread.join()
        self._receiver.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- its thread -------------------------------------------------------------------------------------------------

    _process: VllmProcess | None = None

    def _keep(self) -> None:
        pause = LOOK
        while not self._end.is_set():
            try:
                self._serve_until_it_ends(self._model())
                pause = LOOK
            except (UsageError, OSError) as error:  # no wait would cure it
                self._state, self._said, self._url = HostState.FAILED, str(error), ""
            except InfrastructureError as error:
                self._failures += 1
                self._said = str(error)
            finally:
                if self._process is not None:
                    self._process.stop()
                    self._process = None
            self._end.wait(LONGEST_PAUSE if self._state is HostState.FAILED else pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _model(self) -> str:
        """Wait until the model is on this machine; return its folder."""
        given = self._options
        while not (found := self.find(given.model, MODEL, given.listing)) and not self._end.is_set():
            self._state = HostState.LACKS_MODEL
            self._end.wait(LOOK / 4)
        self._state = HostState.STARTING
        return found

    def _serve_until_it_ends(self, model: str) -> None:
        if self._end.is_set():
            return
        given = self._options
        self._process = process = VllmProcess(
            model,
            given.options.model_copy(update={"host": self._address}),
            python=given.python or sys.executable,
            log=self._folder / "server.log",
            patience=given.start_timeout,
        )
        process.start()
        self._url, self._state, self._said = process.url, HostState.READY, ""
        self._starts, self._failures = self._starts + 1, 0
        seen = time.monotonic()
        while not self._end.wait(LOOK):
            if not process.running:
                self._said = f"the server ended by itself; the end of its log:\n{process.tail()}"
                break
            if healthy(process.port, self._address):
                seen = time.monotonic()
            elif time.monotonic() - seen > given.health_timeout:
                self._said = f"the server was not healthy for {given.health_timeout:g} s, and is started again"
                process.kill()
                break
        self._url, self._state = "", HostState.STARTING


def listing_of(folder: Path | str) -> dict[str, tuple[int, int]]:
    """Return the listing of a folder, which tells two folders of the same path on two machines apart.

    Raises:
        OSError: there is no such folder.
    """
    return {each.name: (each.stat().st_size, each.stat().st_mtime_ns) for each in Path(folder).iterdir()}
