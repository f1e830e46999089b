"""Results must not depend on where they are printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = f"{sys.executable} -m turnwise.cli"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line as a shell does."""
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_terminal_that_knows_ascii_only_gets_the_table() -> None:
    done = shell(f"PYTHONIOENCODING=ascii {COMMAND} envs maze")
    assert done.returncode == 0, done.stderr
    assert "turnwise/Maze-v0" in done.stdout


@pytest.mark.slow
def test_no_standard_output_is_no_error() -> None:
    done = shell(f"{COMMAND} envs maze >&-")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line() -> None:
    done = shell(f"{COMMAND} envs maze > /dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "turnwise: No space left on device"
    assert "Traceback" not in done.stderr
