"""``run``: the command line called in this process, in an empty folder that holds one environment's file."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from turnwise.cli import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str

    def refused(self, *said: str, lines: int = 1) -> None:
        """The law of bad input: exit code 2, one line on standard error for each mistake, and it says what is wrong."""
        assert self.code == 2, f"bad input ends with 2, not {self.code}: {self.err}"
        assert all(line.startswith("turnwise: ") for line in self.err.splitlines()), self.err
        assert len(self.err.splitlines()) == lines, f"{lines} line(s), not: {self.err}"
        for text in said:
            assert text in self.err, f"{text!r} should be said: {self.err}"

    def interrupted(self) -> None:
        """The law of Ctrl-C: exit code 130, no traceback, and a line on how to resume."""
        assert self.code == 130, f"Ctrl-C ends with 130, not {self.code}: {self.err}"
        assert "Traceback" not in self.err
        assert "--resume" in self.err


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """``run("eval", "guess.py", …)``; ``guess.py`` is ``examples/minimal_env.py``."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "minimal_env.py", tmp_path / "guess.py")
    monkeypatch.setattr(sys, "path", list(sys.path))
    own = ("guess", "my_env", "slow_cli", "tool_env", "flaky_cli")
    for name in [name for name in sys.modules if name.split(".")[0] in own]:
        monkeypatch.delitem(sys.modules, name)  # the module of the test before is another file

    def call(*words: str) -> Ran:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capfd.readouterr()
        return Ran(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture
def ctrl_c(tmp_path: Path) -> Callable[..., Ran]:
    """Runs a command in a process of its own and sends it SIGINT (or another signal) as soon as something is so.

    With ``background``, SIGINT is ignored, as in a background job of a shell script.
    """

    def call(
        words: Sequence[str],
        when: Callable[[], Any],
        kind: signal.Signals = signal.SIGINT,
        *,
        background: bool = False,
    ) -> Ran:
        command = [sys.executable, "-m", "turnwise.cli", *words]
        if background:
            command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not when() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(kind)
        out, err = process.communicate()
        return Ran(process.returncode, out, err)

    return call
