"""A tracker that is missing, fails, dies or hangs costs one warning, and the run's own numbers stay complete."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from turnwise.trainers.run.metrics import MetricsLog, read_metrics
from turnwise.trainers.tracking import trackers as tracking
from turnwise.trainers.tracking.settings import TrackingConfig
from turnwise.trainers.tracking.trackers import Trackers

from .. import small
from . import fake_packages
from .fake_packages import warned

HANGS = "import time\ntime.sleep(3600)\n"
FAILS = "def Settings(**_): raise ValueError('no entry\\n  for you')\n"
CRASHES = "import os\nos.abort()\n"
FLOODS = "print('x' * 10_000_000)\nraise SystemExit('enough')\n"
SWALLOWS = "import os\nos.kill(os.getpid(), 9)\n"
LINGERS = """
import subprocess, pathlib
child = subprocess.Popen(["sleep", "3600"])
pathlib.Path(__file__).with_name("pid").write_text(str(child.pid))
raise RuntimeError("left one behind")
"""
FAULTS = {
    "fails": (FAILS, "ValueError: no entry for you"),
    "crashes": (CRASHES, "code -6"),
    "killed": (SWALLOWS, "code -9"),
    "floods": (FLOODS, "SystemExit: enough"),
    "lingers": (LINGERS, "left one behind"),
    "syntax": ("this is no Python", "SyntaxError"),
}


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that writes a module ``wandb``, and returns its folder."""

    def write(text: str) -> Path:
        fake_packages.write(tmp_path / "fakes", "wandb", text)
        monkeypatch.syspath_prepend(str(tmp_path / "fakes"))
        return tmp_path / "fakes"

    return write


def written(folder: Path, config: TrackingConfig, steps: int = 3, size: int = 1) -> list[Any]:
    """Log steps and return the lines of the file."""
    with Trackers.start(config, folder, {}) as trackers, MetricsLog(folder, trackers=trackers) as log:
        for step in range(steps):
            log.write(step, {f"number/{place}": float(step) for place in range(size)})
    return read_metrics(folder / "metrics.jsonl")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_tracker_that_ends_is_one_warning(
    fault: str, tmp_path: Path, wandb: Any, caplog: pytest.LogCaptureFixture
) -> None:
    text, reason = FAULTS[fault]
    wandb(text)
    lines = written(tmp_path / "run", TrackingConfig(to=["wandb"]))
    assert [line["step"] for line in lines] == [0, 1, 2]
    said = warned(caplog)
    assert said.startswith("the run goes on without the tracker wandb: ")
    assert reason in said
    assert "wandb.log" in said, "it names the log"


def test_a_tracker_that_leaves_during_the_run_is_one_warning(
    tmp_path: Path, wandb: Any, caplog: pytest.LogCaptureFixture
) -> None:
    wandb("import os\nos._exit(0)\n")
    with Trackers.start(TrackingConfig(to=["wandb"]), tmp_path, {}) as trackers:
        while not caplog.records:
            trackers.log(1, {"loss": 1.0})
            time.sleep(0.01)
    assert "it ended before the run" in warned(caplog)


def test_nothing_that_a_tracker_started_is_left(tmp_path: Path, wandb: Any) -> None:
    folder = wandb(LINGERS)
    written(tmp_path / "run", TrackingConfig(to=["wandb"]))
    assert gone(int((folder / "pid").read_text()))


def gone(pid: int) -> bool:
    """Wait until a process ended; ``False`` if it does not."""
    for _ in range(1000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":  # dead; its new parent has not noticed yet
            return True
        time.sleep(0.01)
    return False


def test_a_missing_package_is_one_warning_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(tracking.PACKAGES, "wandb", ("no_such_package", "wandb"))
    monkeypatch.setitem(tracking.PACKAGES, "otel", ("no_such_package.inside", "otel"))
    lines = written(tmp_path / "run", TrackingConfig(to=["wandb", "otel"]))
    assert len(lines) == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"the run goes on without the tracker {name}: {module} is not installed: pip install 'turnwise[{name}]'"
        for name, module in (("wandb", "no_such_package"), ("otel", "no_such_package.inside"))
    ]


def test_a_folder_of_that_name_is_not_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "files_of_a_tracker").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not tracking._installed("files_of_a_tracker")
    assert tracking._installed("json")


def test_a_tracker_that_hangs_is_ended_at_the_end(tmp_path: Path, wandb: Any, caplog: pytest.LogCaptureFixture) -> None:
    wandb(HANGS)
    lines = written(tmp_path / "run", TrackingConfig(to=["wandb"], patience=0.1))
    assert len(lines) == 3
    said = warned(caplog)
    assert "it did not finish in time" in said


def test_a_tracker_that_reads_nothing_fills_no_memory(
    tmp_path: Path, wandb: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wandb(HANGS)
    monkeypatch.setattr(tracking, "MOST", 1 << 20)
    lines = written(tmp_path / "run", TrackingConfig(to=["wandb"], patience=3600), steps=100, size=1000)
    assert len(lines) == 100, "the run never waits for a pipe"
    said = warned(caplog)
    assert "1 MiB wait for it" in said


def test_one_tracker_does_not_harm_another(tmp_path: Path, wandb: Any, caplog: pytest.LogCaptureFixture) -> None:
    folder = wandb(CRASHES)
    fake_packages.write(folder, "trackio")
    written(tmp_path / "run", TrackingConfig(to=["wandb", "trackio"]))
    assert [call[0] for call in fake_packages.calls(folder)] == ["init", "log", "log", "log", "finish"]
    assert warned(caplog)


def test_a_process_that_cannot_start_is_one_warning(
    tmp_path: Path, wandb: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wandb(HANGS)
    monkeypatch.setattr("sys.executable", str(tmp_path / "none"))
    assert len(written(tmp_path / "run", TrackingConfig(to=["wandb"]))) == 3
    assert "FileNotFoundError" in warned(caplog)


def test_a_tracker_outlives_a_killed_run_only_to_finish(tmp_path: Path, wandb: Any) -> None:
    folder = wandb(fake_packages.WANDB)
    run = tmp_path / "run"
    run.mkdir()
    pid = os.fork()
    if not pid:  # the run, which is killed in the middle
        trackers = Trackers.start(TrackingConfig(to=["wandb"], patience=1), run, {})
        trackers.log(1, {"loss": 1.0})
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    for _ in range(3000):
        if [call[0] for call in fake_packages.calls(folder)] == ["init", "log", "finish"]:
            return
        time.sleep(0.01)
    pytest.fail(f"it did not finish the run: {fake_packages.calls(folder)}")


def test_what_a_tracker_started_ends_with_a_killed_run(tmp_path: Path, wandb: Any) -> None:
    folder = wandb(fake_packages.WANDB + LINGERS.replace("raise", "#"))
    pid = os.fork()
    if not pid:  # the run
        Trackers.start(TrackingConfig(to=["wandb"], patience=1), tmp_path / "run", {})
        while not (folder / "pid").exists() or not (folder / "pid").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    assert gone(int((folder / "pid").read_text()))


def test_a_warning_does_not_repeat_an_earlier_starts_words(
    tmp_path: Path, wandb: Any, caplog: pytest.LogCaptureFixture
) -> None:
    folder = wandb(FAILS)
    written(tmp_path / "run", TrackingConfig(to=["wandb"]))
    caplog.clear()
    fake_packages.write(folder, "wandb", SWALLOWS)
    written(tmp_path / "run", TrackingConfig(to=["wandb"]))
    assert "code -9" in warned(caplog)


@pytest.mark.slow
def test_a_run_learns_the_same_whatever_its_trackers_do(
    tmp_path: Path, cloned: Path, wandb: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def run(name: str, **tracking: Any) -> tuple[dict[str, bytes], list[Any]]:
        result = small.run(small.looping(tmp_path / name, cloned / "model", steps=2, tracking=tracking))
        lines = read_metrics(result.folder / "metrics.jsonl")
        timed = re.compile("second|idle/|perf/|memory/")
        kept = [{key: value for key, value in line.items() if not timed.search(key)} for line in lines]
        return {path.name: path.read_bytes() for path in result.model.glob("*.safetensors")}, kept

    alone = run("alone", to=[])
    for name, text in (("dies", SWALLOWS), ("hangs", HANGS), ("fails", FAILS)):
        wandb(text)
        caplog.clear()
        assert run(name, to=["wandb"], patience=0.1) == alone, "the same weights and numbers"
        assert warned(caplog)
