"""Temporary folders of browsers: they go with their process, or before the next browser starts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turnwise.envs.web.chromium import temporary
from turnwise.envs.web.chromium.pool import Pool
from turnwise.sandboxes.runner import processes
from turnwise.sandboxes.runner.processes import PROC

from .test_pool import opened, until

PLAYS = """
import sys
import turnwise as tw

env = tw.make("turnwise/Web-v1")
env.reset(seed=1)
print("plays", flush=True)
sys.stdin.readline()
env.close()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for temporary files with a short name, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="tw-", dir="/tmp") as path:
        yield Path(path)


def playing(folder: Path) -> subprocess.Popen[str]:
    """Start a process, with a process group of its own, that plays in a browser."""
    env = os.environ | {"TMPDIR": str(folder)}
    child = subprocess.Popen(
        [sys.executable, "-c", PLAYS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "plays\n"
    return child


def using(folder: Path) -> list[int]:
    """Return the processes whose command or environment names a folder."""
    name, found = str(folder).encode(), list[int]()
    for path in PROC.glob("[0-9]*"):
        try:
            if name in (path / "cmdline").read_bytes() or name in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.skipif(not PROC.is_dir(), reason="needs /proc")
def test_a_killed_process_group_leaves_nothing_beyond_the_next_start(folder: Path) -> None:
    first = playing(folder)
    (own,) = folder.glob("turnwise-*")
    assert list(own.glob("playwright*profile*")), "the browser's profile is elsewhere"
    assert [path for path in folder.iterdir() if path != own] == [], "a temporary file is outside of the folder"
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    asyncio.run(until(lambda: not using(folder), "a process is left"))
    second = playing(folder)
    assert not own.exists(), "the folder of the dead process is kept"
    second.communicate("end\n", timeout=60)
    assert second.returncode == 0
    assert list(folder.iterdir()) == [], "a process that ended well left something"


@pytest.mark.slow
def test_a_start_keeps_the_folders_of_processes_that_live(folder: Path) -> None:
    first = playing(folder)
    (own,) = folder.glob("turnwise-*")
    second = playing(folder)
    assert own.exists()
    assert len(list(folder.glob("turnwise-*"))) == 2
    for child in (first, second):
        child.communicate("end\n", timeout=60)
    assert list(folder.iterdir()) == []


@pytest.mark.slow
async def test_a_browser_takes_its_folder_along(pools: Callable[..., Pool]) -> None:
    pool = pools(ready=0)
    chromium = (await opened(pool)).slot.chromium
    assert chromium.folder.is_dir()
    await pool.close()
    assert not chromium.folder.exists()


def test_without_proc_no_folder_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path / "none")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, second = temporary.new_folder(), temporary.new_folder()
    assert first.is_dir()
    assert second.is_dir()
    assert first != second


@pytest.mark.parametrize("before", [None, "/somewhere"])
def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str | None) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    if before is not None:
        monkeypatch.setenv("TMPDIR", before)
    with temporary.as_temporary(tmp_path):
        assert os.environ["TMPDIR"] == str(tmp_path)
    assert os.environ.get("TMPDIR") == before
