"""The contract of a tracker: it gets every finite number of every step by its name, and needs no network.

Packages that are not installed are played by fakes. In an environment with the real ones, the same tests read what
they wrote::

    python -m venv /tmp/trackers && /tmp/trackers/bin/pip install 'turnwise[train,wandb,trackio,mlflow,otel]' pytest …
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from turnwise.trainers.run.metrics import MetricsLog
from turnwise.trainers.tracking.settings import TrackerName, TrackingConfig
from turnwise.trainers.tracking.trackers import PACKAGES, Trackers, _installed

from . import fake_packages
from .fake_packages import warned

SETTINGS = {"optimizer": {"lr": 0.5}, "steps": 3, "server": {"api_key": "abcdefgh"}}
STEPS = [
    (0, {"eval/return": 0.25}),
    (1, {"loss": 3.0, "return": float("nan"), "seconds/step": 2.0}),
    (2, {"loss": 2.0, "curriculum/share/(a=1)": 0.5}),
]
EXPECTED = {
    "train/loss": [(1, 3.0), (2, 2.0)],
    "eval/return": [(0, 0.25)],
    "seconds/step": [(1, 2.0)],
}

Read = dict[str, list[tuple[int, float]]]


def track(folder: Path, steps: list[Any], resume_at: int = 0, **tracking: Any) -> None:
    """Log steps of a run."""
    config = TrackingConfig(**tracking)
    with (
        Trackers.start(config, folder, SETTINGS, resume_at=resume_at) as trackers,
        MetricsLog(folder, resume_at=resume_at, trackers=trackers) as log,
    ):
        for step, numbers in steps:
            log.write(step, numbers)


def installed(name: TrackerName) -> bool:
    return _installed(PACKAGES[name][0])


def by_name(values: list[tuple[str, int, float]]) -> Read:
    found: Read = {}
    for name, step, value in sorted(values, key=lambda each: each[1]):
        found.setdefault(name, []).append((step, value))
    return found


def read_tensorboard(folder: Path) -> Read:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


def read_otel(folder: Path) -> Read:
    values = []
    for line in (folder / "tracking" / "otel.jsonl").read_text().splitlines():
        scopes = json.loads(line)["resource_metrics"][0]["scope_metrics"]
        gauges = {one["name"]: one["data"]["data_points"][0]["value"] for one in scopes[0]["metrics"]}
        step = int(gauges.pop("turnwise.step"))
        values += [(name.removeprefix("turnwise."), step, value) for name, value in gauges.items()]
    return by_name(values)


def read_trackio(folder: Path) -> Read:
    with sqlite3.connect(folder / "tracking" / "turnwise.db") as base:
        rows = base.execute("SELECT step, metrics FROM metrics").fetchall()
    return by_name([(name, step, value) for step, text in rows for name, value in json.loads(text).items()])


def read_mlflow(folder: Path) -> Read:
    with sqlite3.connect(folder / "tracking" / "mlflow.db") as base:
        return by_name(base.execute("SELECT key, step, value FROM metrics").fetchall())


def read_wandb(folder: Path) -> Read:
    from wandb.proto import wandb_internal_pb2

    values = []
    for path in (folder / "tracking" / "wandb").glob("offline-run-*/run-*.wandb"):
        for data in leveldb_records(path.read_bytes()[7:]):
            record = wandb_internal_pb2.Record.FromString(data)
            items = {one.key or one.nested_key[0]: json.loads(one.value_json) for one in record.history.item}
            step = items.pop("step", None)
            values += [(name, step, value) for name, value in items.items() if name[0] != "_"]
    return by_name(values)


def leveldb_records(data: bytes) -> list[bytes]:
    """Return the records of a LevelDB log: chunks in blocks of 32 KiB, of which the first begins after 7 bytes."""
    found, partial, at = [], b"", 7
    while at - 7 + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        header = data[at - 7 : at]
        length, kind = int.from_bytes(header[4:6], "little"), header[6] if len(header) == 7 else 0
        if kind == 0:
            break
        partial += data[at : at + length]
        if kind in (1, 4):
            found.append(partial)
            partial = b""
        at += 7 + length
    return found


REAL: dict[TrackerName, Callable[[Path], Read]] = {
    "tensorboard": read_tensorboard,
    "wandb": read_wandb,
    "trackio": read_trackio,
    "mlflow": read_mlflow,
    "otel": read_otel,
}


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest) -> TrackerName:
    """The name of a tracker whose package is installed."""
    name: TrackerName = request.param
    if not installed(name):
        pytest.skip(f"{name} is not installed; the fake stands for it")
    return name


@pytest.mark.slow
def test_the_real_package_holds_what_the_file_holds(
    real: TrackerName, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "first"
    track(run, STEPS, to=[real])
    assert not warned(caplog)
    found = REAL[real](run)
    assert {name: found.get(name) for name in EXPECTED} == EXPECTED
    assert "train/return" not in found, "a number that is not finite is in no tracker"
    assert len(found) == len(EXPECTED) + 1, "nothing else is there"


@pytest.mark.slow
def test_a_resumed_run_is_the_same_run(real: TrackerName, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    track(tmp_path, STEPS, to=[real])
    second = int(time.time())
    while int(time.time()) == second:  # TensorBoard orders files of one second by their processes' numbers, as text
        time.sleep(0.02)
    track(tmp_path, [(2, {"loss": 20.0}), (3, {"loss": 1.0})], resume_at=1, to=[real])
    assert not warned(caplog)
    last = dict(REAL[real](tmp_path)["train/loss"])
    assert last == {1: 3.0, 2: 20.0, 3: 1.0} if real == "tensorboard" else {1, 2, 3} == last.keys()


@pytest.mark.parametrize("name", fake_packages.FILES)
def test_a_fake_package_gets_the_calls_of_a_run(
    name: TrackerName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fakes, run = tmp_path / "fakes", tmp_path / "first"
    fake_packages.write(fakes, name)
    monkeypatch.syspath_prepend(str(fakes))
    track(run, STEPS, to=[name], project="mine", name="red")
    assert not warned(caplog)
    begin, *logged, end = fake_packages.calls(fakes)
    identifier = (run / "tracking" / "id").read_text().strip()
    named = f"red-{identifier}" if name == "trackio" else "red"
    assert begin[1:5] == ["mine", named, identifier, "offline"]
    assert "abcdefgh" not in json.dumps(begin), "secrets stay in the run"
    assert "optimizer" in json.dumps(begin), "the settings are there"
    share = "curriculum/share/_a_1_" if name == "mlflow" else "curriculum/share/(a=1)"
    assert logged == [
        ["log", 0, {"eval/return": 0.25}],
        ["log", 1, {"train/loss": 3.0, "seconds/step": 2.0}],
        ["log", 2, {"train/loss": 2.0, share: 0.5}],
    ]
    assert end == ["finish"]
    assert not list(run.glob("tracking/*.log")), "an empty log is removed"


@pytest.mark.parametrize(("name", "variable"), [("trackio", "TRACKIO_SPACE_ID"), ("mlflow", "MLFLOW_TRACKING_URI")])
def test_only_online_reads_where_to(
    name: TrackerName,
    variable: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake_packages.write(tmp_path / "fakes", name)
    monkeypatch.syspath_prepend(str(tmp_path / "fakes"))
    monkeypatch.setenv(variable, "http://127.0.0.1:1/x")
    for online in (False, True):
        track(tmp_path / str(online), STEPS, to=[name], online=online)
    begun = [call[4] for call in fake_packages.calls(tmp_path / "fakes") if call[0] == "init"]
    assert begun == ["offline", "online"], "an address in the environment alone sends nothing"
    monkeypatch.delenv(variable)
    caplog.clear()
    track(tmp_path / "nowhere", STEPS, to=[name], online=True)
    said = warned(caplog)
    assert variable in said, "the warning names the variable to set"


def test_the_settings_of_the_same_tracker_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="names wandb twice"):
        TrackingConfig(to=["wandb", "mlflow", "wandb"])


class Collector(BaseHTTPRequestHandler):
    """An OpenTelemetry collector that counts what it gets."""

    got = 0

    def do_POST(self) -> None:
        type(self).got += self.path == "/v1/metrics" and int(self.headers["Content-Length"]) > 0
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *words: Any) -> None:
        pass


@pytest.mark.slow
def test_a_collector_gets_the_numbers_of_each_step_and_a_dead_one_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if not installed("otel") or not _installed("opentelemetry.exporter.otlp.proto.http.metric_exporter"):
        pytest.skip("the extra otel is not installed")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    track(tmp_path / "here", STEPS, to=["otel"], online=True)
    assert Collector.got == len(STEPS)
    assert not warned(caplog)
    track(tmp_path / "offline", STEPS, to=["otel"])
    assert Collector.got == len(STEPS), "an address in the environment alone sends nothing"
    server.shutdown()
    server.server_close()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    track(tmp_path / "dead", STEPS, to=["otel"], online=True)
    assert "the collector did not accept the last numbers" in warned(caplog)
