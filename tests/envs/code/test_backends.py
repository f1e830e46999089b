"""Leftovers of a process that ends without closing anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from turnwise.sandboxes.backend import Backend
from turnwise.sandboxes.loop import LOOP

from ...sandboxes.leftovers import control_groups

SOURCE = """\
import os, time
import turnwise as tw

env = tw.make("turnwise/CodeShell-v2")
env.reset(seed=0)
time.sleep({seconds})
print(os.getpid())
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.3], ids=["while sandboxes are made", "when they are"])
def test_the_end_of_a_process_is_quiet_and_leaves_nothing(seconds: float, backend: Backend) -> None:
    assert LOOP.wait(backend.probe()).available
    done = subprocess.run(
        [sys.executable, "-c", SOURCE.format(seconds=seconds)], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    pid = done.stdout.strip()
    places = [*Path("/tmp").glob(f"turnwise-{pid}-*"), *control_groups(f"turnwise-{pid}-")]
    assert not places
