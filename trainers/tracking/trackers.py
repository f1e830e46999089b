"""The trackers of a run, each in a process of its own: what crashes, hangs or prints there stays there.

The run writes to a pipe that never blocks. Lines that do not fit wait in memory, up to a limit.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...envs.child_command import child_command
from ...logs import masked, tell
from .settings import TrackerName, TrackingConfig
from .tracker import TrackedRun

LOG = logging.getLogger(__name__)

FOLDER = "tracking"
"""Folder of logs and local files in a run's folder."""
PACKAGES: Mapping[TrackerName, tuple[str, str]] = {
    "tensorboard": ("tensorboard", "train"),
    "wandb": ("wandb", "wandb"),
    "trackio": ("trackio", "trackio"),
    "mlflow": ("mlflow", "mlflow"),
    "otel": ("opentelemetry.sdk.metrics", "otel"),
}
"""The module that a tracker needs, and the extra that installs it."""
OFFLINE = {
    "WANDB_MODE": "offline",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "GRADIO_ANALYTICS_ENABLED": "False",
}
"""Variables of a tracker's process without ``tracking.online``, so that no package reports anything anywhere."""
ADDRESSES = ("TRACKIO_", "MLFLOW_TRACKING_", "OTEL_")
"""Beginnings of variables that such a process does not receive."""
MOST = 8 * 2**20
"""The most bytes that wait for a tracker: the numbers of thousands of steps."""
POLL = 0.02
"""Seconds between two looks at trackers that finish."""
LONGEST = 300
"""The most characters of a tracker's error in a warning."""


class TrackerProcess:
    """One tracker. No method raises or waits, and the first problem is logged as a warning; then it takes nothing more.

    Args:
        name: name of the tracker.
        run: the run to track.
        patience: seconds that the process survives that of the run.
    """

    def __init__(self, name: TrackerName, run: TrackedRun, patience: float) -> None:
        self.name = name
        self._pending = bytearray()
        self._process: subprocess.Popen[bytes] | None = None
        self._begins = 0
        self._log = Path(run.folder, FOLDER, f"{name}.log")
        module, extra = PACKAGES[name]
        if not _installed(module):
            self._warn(f"{module} is not installed: pip install 'turnwise[{extra}]'")
            return
        command = child_command("trainers.tracking.child", name, patience)
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._begins = log.tell()  # an earlier start may have written before
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=_environment(run.online),
                    start_new_session=True,  # Ctrl-C is for the run
                )
            assert self._process.stdin is not None
            self._pipe = self._process.stdin.fileno()
            os.set_blocking(self._pipe, False)
        except OSError as error:
            self._release(f"{type(error).__name__}: {error}")
        self.send(asdict(run))

    def send(self, entry: Mapping[str, Any]) -> None:
        """Pass an object on as soon as the process reads it."""
        if self._process is None:
            return
        self._pending += json.dumps(entry, default=str).encode() + b"\n"
        if len(self._pending) > MOST:
            self._release(f"it does not read, and {len(self._pending) >> 20} MiB wait for it")
        else:
            self.busy()

    def busy(self) -> bool:
        """Write what the pipe takes; return whether the process is running."""
        if self._process is None or self._ended():
            return False
        try:
            while self._pending:
                del self._pending[: os.write(self._pipe, self._pending)]
        except BlockingIOError:
            pass  # the rest waits until the process reads on
        except OSError:  # it closed the pipe, so it is ending
            self._pending.clear()
        return True

    def lost(self) -> bool:
        """Whether there is no process any more; log a warning the first time."""
        if self._process is not None and self._ended():
            self._release(otherwise="it ended before the run")
        return self._process is None

    def conclude(self) -> None:
        """Release a process that received the end of the run, or kill it if it still runs."""
        if self._process is not None:
            self._release("" if self._ended() else "it did not finish in time")
        with suppress(OSError):  # keep a log only with something in it
            if not self._log.stat().st_size:
                self._log.unlink()
                self._log.parent.rmdir()

    def _ended(self) -> bool:
        """Whether the process ended; it stays a zombie, so that no other process has its number when it is killed."""
        assert self._process is not None
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # someone else waited for it
            return True

    def _release(self, reason: str = "", otherwise: str = "") -> None:
        """End the process, also those that its package started, and warn of a reason or of a failure.

        Args:
            reason: cause of giving it up; empty if it ended by itself.
            otherwise: reason to warn of if it ended by itself, without a failure.
        """
        process, self._process = self._process, None
        self._pending.clear()
        if process is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
            if code:
                reason = reason or self._last_words() or f"it ended with code {code}"
            reason = reason or otherwise
        if reason:
            self._warn(f"{reason[:LONGEST]} ({self._log})")

    def _warn(self, reason: str) -> None:
        text = f"the run goes on without the tracker {self.name}: {reason}"
        tell(LOG, "tracker lost", text, {"tracker": self.name})

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self._log.read_bytes()[self._begins :].decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""


class Trackers:
    """The trackers of a run, which may be none.

    Args:
        processes: their processes.
        patience: seconds that all of them together have to finish.
    """

    def __init__(self, processes: Sequence[TrackerProcess] = (), patience: float = 0.0) -> None:
        self._processes, self._patience = processes, patience

    @classmethod
    def start(cls, config: TrackingConfig, folder: Path, settings: Mapping[str, Any], *, resume_at: int = 0) -> Self:
        """Start the trackers of a configuration.

        Args:
            config: settings of tracking.
            folder: the run's folder.
            settings: all settings of the run, for the trackers to show.
            resume_at: number of finished steps.
        """
        local = Path(config.folder) if config.folder is not None else folder / FOLDER
        run = TrackedRun(
            name=config.name or folder.resolve().name,
            project=config.project,
            id="",
            folder=str(folder),
            local=str(local),
            online=config.online,
            resume_at=resume_at,
            config=masked(settings),
        )
        if set(config.to) - {"tensorboard"}:
            run = replace(run, id=_identifier(folder))
        return cls([TrackerProcess(name, run, config.patience) for name in config.to], config.patience)

    def log(self, step: int, numbers: Mapping[str, float | None]) -> None:
        """Pass the numbers of a step on; ``None`` stands for one that is not finite."""
        for process in self._processes:
            if not process.lost():
                process.send({"step": step, **numbers})

    def close(self) -> None:
        """Let the trackers finish, and end those that take too long."""
        try:
            for process in self._processes:
                process.send({})
            until = time.monotonic() + self._patience
            while sum(process.busy() for process in self._processes) and time.monotonic() < until:
                time.sleep(POLL)
        finally:
            for process in self._processes:
                process.conclude()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _installed(module: str) -> bool:
    """Return whether a module can be imported; a folder of that name, such as wandb's own files, is none."""
    try:
        found = importlib.util.find_spec(module)
    except Exception:  # to find a module inside a package imports the package, which may be broken in any way
        return False
    return found is not None and found.origin is not None


def _environment(online: bool) -> dict[str, str]:
    """Return the variables of a tracker's process."""
    if online:
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if not name.startswith(ADDRESSES)} | OFFLINE


def _identifier(folder: Path) -> str:
    """Return the identifier of a run, which its first start writes into its folder."""
    path, made = folder / FOLDER / "id", uuid.uuid4().hex[:12]
    with suppress(OSError, ValueError):
        if path.exists() and (known := path.read_text(encoding="ascii").strip()):
            return known
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made + "\n", encoding="ascii")
    return made
