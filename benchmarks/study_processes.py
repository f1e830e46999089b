"""The process of each run of a study, forked from one that has imported what runs need.

Loading the libraries takes several seconds of processor time, as much as the cheapest runs. So one server process loads
them, and each run is a fork of it, with one thread, a session of its own and its output in a file.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

HERE = Path(__file__).resolve().parent
INTERRUPTED = 130
"""Exit status of a run that was interrupted and can be continued."""
LOADED = (
    "study_worker",
    "turnwise.trainers.archer",
    "turnwise.trainers.behavior_cloning",
    "turnwise.trainers.loop",
    "turnwise.trainers.on_policy",
    "turnwise.trainers.value_based",
)
"""Modules that the server imports; a run imports the others that it needs."""
BOOTING = 60.0
"""Seconds that an interrupt waits for a new process to be able to hear it."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class RunProcess:
    """A run in a process of its own.

    Args:
        order: file with what the run has to do (``study_worker.main``).
        log: file that its output is appended to.
    """

    def __init__(self, order: Path, log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(LOADED))
        with _surroundings():
            multiprocessing.forkserver.ensure_running()
        self._listening, ready = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(str(order), str(log), ready))
        self._process.start()
        ready.close()

    def poll(self) -> int | None:
        """Return its exit status, negative after a signal; ``None`` while it runs."""
        return self._process.exitcode

    def interrupt(self) -> None:
        """Ask it to write a checkpoint and end, if it still runs."""
        self._listening.poll(BOOTING)  # before, the fork ignores the signal, as its server does
        if self.poll() is None and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGINT)

    def wait(self) -> int:
        """Wait for its end, and return its exit status."""
        self._process.join()
        code = self.poll()
        assert code is not None
        return code


@contextmanager
def _surroundings() -> Iterator[None]:
    """Give the server one thread and the path of its modules, which it does not get from ``sys.path``."""
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    wanted = ONE_THREAD | {"PYTHONPATH": path}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _run(order: str, log: str, ready: Connection) -> None:
    """Run in the forked process: Ctrl-C on the terminal reaches the harness alone, which passes it on once."""
    os.setsid()
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    import study_worker

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a harness in the background has it ignored
        ready.close()
        code = study_worker.main(Path(order))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
