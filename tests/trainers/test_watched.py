"""A viewer costs a run nothing but its own seconds: the run never waits for it, also if it is stopped or killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import httpx
import pytest

from turnwise.rollouts.store import load_episodes
from turnwise.trainers import loop
from turnwise.trainers.collect.collect import Collected
from turnwise.trainers.loop import LoopConfig
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.training import train_with

from . import small

PAUSES = (2, 4)
"""Finished steps after which a run waits for this test, never for the viewer."""
PATIENCE = 600
"""Seconds until a process counts as broken."""


class Waiting(loop.LoopTrainer):
    """Waits at each pause for a file beside the run's folder."""

    async def collect(self) -> Collected:
        file = Path(self.config.out).parent / f"go-{self.run.step}"
        while self.run.step in PAUSES and not file.exists():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        return await super().collect()


def train_waiting(config: LoopConfig) -> None:
    train_with(Waiting, config)


def wait_until(ready: Callable[[], Any], run: ForkServerProcess) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        assert run.is_alive(), "the run ended"
        assert time.monotonic() < end, "the run waits for something"
        time.sleep(0.01)


def steps(out: Path) -> int:
    return sum("loss" in entry for entry in read_metrics(out / "metrics.jsonl"))


def results(out: Path) -> dict[str, Any]:
    """Return what a run leaves, without the numbers that measure the machine."""
    config = json.loads((out / "config.json").read_text())["config"]
    lines = read_metrics(out / "metrics.jsonl")
    return {
        "files": sorted(str(file.relative_to(out)) for file in out.rglob("*")),
        "settings": {name: value for name, value in config.items() if name != "out"},
        "metrics": [{k: value for k, value in entry.items() if not k.startswith(small.MEASURED)} for entry in lines],
        "turns": {episode.episode_id: [turn.action_ids for turn in episode.turns] for episode in kept(out)},
        "weights": (out / "model" / "model.safetensors").read_bytes(),
        "end": json.loads((out / "_end.json").read_text()) | {"date": ""},
    }


def kept(out: Path) -> Any:
    return load_episodes(out / "training_episodes")


def open_files(pid: int) -> dict[str, int]:
    """Return the flags with which a process opened each of its files, pipes and sockets."""
    found = {}
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        flags = Path(f"/proc/{pid}/fdinfo/{fd.name}").read_text().partition("flags:")[2].split()[0]
        found[os.readlink(fd)] = int(flags, 8)
    return found


def leads_to(pid: int, port: int) -> bool:
    """Return whether a socket of a process is connected to a port."""
    sockets = {name[8:-1] for name in open_files(pid) if name.startswith("socket:[")}
    entries = [entry.split() for entry in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return any(entry[9] in sockets and int(entry[2].partition(":")[2], 16) == port for entry in entries)


def share_nothing(run: int, viewer: int, port: int, out: Path) -> None:
    """Check with the kernel that a run has nothing to wait for: it shares no pipe, socket or lock with a viewer."""
    mine, theirs = open_files(run), open_files(viewer)
    channels = {name for name in {*mine} & {*theirs} if name.startswith(("pipe:", "socket:"))}
    assert not channels, "no pipe or socket of one process is also the other's"
    assert not leads_to(run, port), "the run is no client of the viewer"
    read = [name for name, flags in theirs.items() if name.startswith(str(out)) and flags & os.O_ACCMODE == os.O_RDONLY]
    assert [name for name in theirs if name.startswith(str(out))] == read, "the viewer writes to no file of the run"
    locks = Path("/proc/locks").read_text().splitlines() if Path("/proc/locks").exists() else []
    assert str(viewer) not in {entry.split()[4] for entry in locks}, "the viewer holds no lock"


@pytest.mark.slow
def test_a_stopped_or_killed_viewer_changes_nothing(
    cloned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # where the processes find this module
    changes: dict[str, Any] = {"keep_episodes": "all", "checkpoint_every": 3, "eval": {"episodes": 0}}
    folders = [tmp_path / name / "run" for name in ("alone", "runs")]
    alone, watched = (
        small.FORKS.Process(target=train_waiting, args=(small.looping(out, cloned / "model", **changes),))
        for out in folders
    )
    command = [sys.executable, "-m", "turnwise", "view", "--port", "0"]  # shows what is below runs/
    viewer = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    for out in folders:
        out.parent.mkdir()
    for pause in PAUSES:
        (folders[0].parent / f"go-{pause}").touch()
    try:
        alone.start()
        watched.start()
        assert viewer.stdout is not None
        address, out = httpx.URL(viewer.stdout.readline().strip()), folders[1]
        wait_until(lambda: (out / "metrics.jsonl").exists(), watched)
        assert watched.pid is not None
        assert address.port is not None
        with httpx.Client(base_url=f"http://127.0.0.1:{address.port}", timeout=PATIENCE) as client:
            client.get(address)
            wait_until(lambda: client.get("/api/runs").json(), watched)
            with client.stream("GET", f"/api/runs/{client.get('/api/runs').json()[0]['id']}/live") as answer:
                assert next(line for line in answer.iter_lines() if '"step":2,' in line)
                viewer.send_signal(signal.SIGSTOP)
                os.waitpid(viewer.pid, os.WUNTRACED)  # returns once it is stopped
                share_nothing(watched.pid, viewer.pid, address.port, out)
                (out.parent / "go-2").touch()
                wait_until(lambda: steps(out) == 4, watched)
                viewer.kill()
                (out.parent / "go-4").touch()
                for process in (alone, watched):
                    process.join(PATIENCE)
        assert (alone.exitcode, watched.exitcode) == (0, 0)
        one, other = map(results, folders)
        assert steps(out) == 6
        for name, value in one.items():
            assert other[name] == value, f"the same {name}, watched or not"
    finally:
        viewer.kill()
        viewer.communicate()
        for process in (alone, watched):
            process.kill()
            process.join()
