"""Containers are abandoned when their owner has died, as far as that can be known, and when their time has passed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from turnwise.sandboxes.bubblewrap.seccomp import DENIED, program
from turnwise.sandboxes.docker.containers import MACHINE, OWNER, UNTIL, is_abandoned, labels
from turnwise.sandboxes.docker.prepare import DENY, FOLDER, runner_archive, start_command


def test_what_this_process_made_is_not_abandoned_before_its_time() -> None:
    mine = labels(100.0)
    assert mine[OWNER].startswith(f"{os.getpid()}:")
    assert not is_abandoned(mine, time.time())
    assert not is_abandoned(mine, time.time() + 100.0)
    assert is_abandoned(mine, time.time() + 1000.0)


@pytest.mark.parametrize(
    ("change", "over"),
    [
        ({OWNER: f"{os.getpid()}:1"}, True),
        ({OWNER: "999999999:1"}, True),
        ({OWNER: "999999999:1", MACHINE: "another"}, False),
        ({OWNER: "nonsense"}, False),
        ({OWNER: "", UNTIL: "nonsense"}, False),
        ({UNTIL: "5", MACHINE: "another"}, True),
    ],
    ids=["number used again", "gone", "elsewhere", "unreadable owner", "unreadable", "time is over"],
)
def test_an_owner_is_a_number_a_time_and_a_machine(change: dict[str, str], over: bool) -> None:
    assert is_abandoned(labels(100.0) | change, time.time()) is over


def test_the_first_process_denies_before_it_becomes_the_runner() -> None:
    *python, source = start_command()
    assert python == ["python3", "-I", "-S", "-c"]
    assert source.index("deny(bytes.fromhex") < source.index("main()")
    assert f"sys.path.append({FOLDER!r})" in source


def test_the_runner_travels_whole_and_always_alike() -> None:
    first = runner_archive()
    runner_archive.cache_clear()
    assert runner_archive() == first
    assert b"run/turnwise/turnwise_runner/main.py" in first
    assert b"run/turnwise/turnwise_deny.py" in first


@pytest.mark.skipif(os.uname().machine not in DENIED, reason="there is no filter for this kind of machine")
def test_what_is_denied_stays_denied_for_whatever_is_started() -> None:
    ask = "import socket\ntry: socket.socket(16, 3)\nexcept OSError as error: print(error.errno)"
    source = (
        f"import sys; sys.path.append({str(DENY.parent)!r}); from turnwise_deny import deny\n"
        f"deny(bytes.fromhex({program().hex()!r}))\n"
        f"import subprocess; subprocess.run([sys.executable, '-c', {ask!r}])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "97\n", "kinds of sockets that are not needed"


def test_a_filter_that_the_kernel_does_not_take_ends_it() -> None:
    source = f"import sys; sys.path.append({str(DENY.parent)!r}); from turnwise_deny import deny; deny(b'12345678')"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", source], capture_output=True, text=True)
    assert done.returncode == 1
    assert "takes no filter" in done.stderr
