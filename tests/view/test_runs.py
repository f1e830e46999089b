"""The list of runs tells each one's state from its folder, and a damaged run hides no other."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from turnwise.errors import UsageError
from turnwise.rollouts.locks import is_taken, take
from turnwise.trainers.run.run_folder import RunFolder
from turnwise.view import live
from turnwise.view.metrics import MetricsFile, Point, thinned
from turnwise.view.runs import Runs, State

from .conftest import client_of
from .fakes import line, training
from .folders import running


def states(root: Path) -> dict[str, str]:
    return {run.name.removeprefix("runs/"): run.state for run in Runs([root]).list()}


def test_folders_tell_states(shared: Path) -> None:
    assert states(shared) == {
        "done": State.FINISHED, "killed": State.INTERRUPTED, "broken": State.FAILED, "torn": State.DAMAGED,
        "eval": State.INTERRUPTED, "live": State.RUNNING,
    }  # fmt: skip


def test_rows_say_what_a_reader_asks(client: TestClient) -> None:
    rows = {row["name"]: row for row in client.get("/api/runs").json()}
    done, broken, torn = rows["runs/done"], rows["runs/broken"], rows["runs/torn"]
    assert (done["kind"], done["policy"], done["env"]) == ("training", "loop", "turnwise/Maze-v0")
    assert (done["step"], done["steps"]) == (10, 10)
    assert done["numbers"]["eval/success"] == 0.4
    assert done["stores"] == ["training_episodes"]
    assert broken["problem"] == "DivergedError: the loss was not finite"
    assert "line 2: not a JSON object" in torn["problem"], "a damaged file is named with its line"
    assert rows["runs/eval"]["kind"] == "evaluation"


def test_a_damaged_configuration_hides_no_other_run(runs: Path) -> None:
    (runs / "killed" / "config.json").write_text("{")
    (runs / "eval" / "episodes" / "_manifest.json").write_text("[]")
    found = states(runs)
    assert found["killed"] == found["eval"] == State.DAMAGED
    assert found["done"] == State.FINISHED


@pytest.mark.slow
def test_a_killed_process_shows_as_interrupted(tmp_path: Path) -> None:
    path = training(tmp_path / "run", done=2, end=None)
    code = (
        "import sys, time; from pathlib import Path; from turnwise.trainers.run.run_folder import RunFolder\n"
        "folder = RunFolder(Path(sys.argv[1]), 'loop')\n"
        "with folder.lock(), folder.record_end():\n    print('locked', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    assert Runs([path]).list()[0].state == State.RUNNING
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert Runs([path]).list()[0].state == State.INTERRUPTED


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (None, "finished"),
        (KeyboardInterrupt(), "interrupted"),
        (asyncio.CancelledError(), "interrupted"),
        (SystemExit(1), "interrupted"),
        (SystemExit(0), "interrupted"),
        (ValueError("no\nway"), "failed"),
    ],
)
def test_a_run_records_how_it_ended(tmp_path: Path, error: BaseException | None, state: str) -> None:
    folder = RunFolder(training(tmp_path / "run", end="failed"), "loop")

    def block() -> None:
        with folder.record_end():
            assert not (folder.path / "_end.json").exists(), "while it runs, no earlier end counts"
            if error is not None:
                raise error

    if error is None:
        block()
    else:
        with pytest.raises(type(error)):
            block()
    info = Runs([folder.path]).list()[0]
    assert info.state == state
    assert info.problem == ("ValueError: no way" if state == "failed" else "")


def test_a_refused_start_leaves_the_end_of_the_run(tmp_path: Path) -> None:
    path = training(tmp_path / "run")
    before = (path / "_end.json").read_text()
    with pytest.raises(UsageError), RunFolder(path, "loop").lock():
        RunFolder(path, "loop").entered(type("Fresh", (), {"resume": False})(), may_change=())
    assert (path / "_end.json").read_text() == before


def test_a_run_of_an_older_version_is_finished_if_it_has_its_model(tmp_path: Path) -> None:
    (training(tmp_path / "run", end=None) / "model").mkdir()
    assert Runs([tmp_path]).list()[0].state == State.FINISHED


def test_a_run_of_an_older_version_that_stopped_early_is_finished_if_it_was_not_resumed(tmp_path: Path) -> None:
    path = training(tmp_path / "run", steps=100, done=40, end=None)
    (path / "model").mkdir()
    assert Runs([tmp_path]).list()[0].state == State.FINISHED
    later = time.time() + 60
    os.utime(path / "config.json", (later, later))  # as the next start does, which was then killed
    assert Runs([tmp_path]).list()[0].state == State.INTERRUPTED


def test_looking_takes_no_lock(tmp_path: Path) -> None:
    file = tmp_path / "_lock"
    file.touch()
    with file.open() as one, file.open() as other:
        assert not is_taken(file)
        assert take(one.fileno()), "looking left no lock behind"
        assert is_taken(file)
        assert not take(other.fileno())
    assert not is_taken(file)
    assert not is_taken(tmp_path / "none")


def test_no_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        Runs([tmp_path / "none"])
    with pytest.raises(UsageError, match="no run in"):
        Runs([tmp_path])


def test_runs_that_appear_later_are_listed(runs: Path) -> None:
    found = Runs([runs])
    training(runs / "deep" / "er" / "new")
    assert "runs/deep/er/new" in {run.name for run in found.list()}


@pytest.mark.parametrize("id", ["..", "%2e%2e", "../../etc", "ffffffffffff", "x" * 500, "%00"])
def test_only_runs_that_were_found_can_be_named(client: TestClient, id: str) -> None:
    for part in ("", "/episodes?store=episodes", "/difference?other=a", "/seeds"):
        assert client.get(f"/api/runs/{id}{part}").status_code in (404, 422)


@pytest.mark.parametrize(
    "store", ["..", "../done/training_episodes", "/etc", "checkpoints", "%2e%2e%2f", "episodes/../episodes"]
)
def test_only_known_stores_can_be_named(client: TestClient, ids: dict[str, str], store: str) -> None:
    assert client.get(f"/api/runs/{ids['runs/eval']}/episodes", params={"store": store}).status_code == 404


def test_secrets_of_settings_stay_secret(client: TestClient, ids: dict[str, str]) -> None:
    answer = client.get(f"/api/runs/{ids['runs/eval']}")
    assert answer.json()["about"]["config"]["api"] == {"key": "***"}
    assert "secret-of-the-api" not in answer.text


def test_differences_of_configurations(client: TestClient, ids: dict[str, str]) -> None:
    found = client.get(f"/api/runs/{ids['runs/done']}/difference", params={"other": ids["runs/live"]}).json()
    assert found == [{"key": "seed", "this": 0, "other": 3}, {"key": "steps", "this": 10, "other": 20}]


def test_settings_beyond_what_javascript_counts_stay_exact(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two"), 1):
        training(tmp_path / "runs" / name, seed=2**60 + number, nested={"seeds": [2**60 + number, True, 1.5]})
    client = client_of(tmp_path / "runs")
    ids = {run["name"]: run["id"] for run in client.get("/api/runs").json()}
    found = client.get(f"/api/runs/{ids['runs/one']}/difference", params={"other": ids["runs/two"]}).json()
    one, two = str(2**60 + 1), str(2**60 + 2)
    assert found == [
        {"key": "nested.seeds", "this": [one, True, 1.5], "other": [two, True, 1.5]},
        {"key": "seed", "this": one, "other": two},
    ]
    assert client.get(f"/api/runs/{ids['runs/one']}").json()["about"]["config"]["seed"] == one


def test_seeds_are_averaged_one_run_each(client: TestClient, ids: dict[str, str]) -> None:
    found = client.get(f"/api/runs/{ids['runs/done']}/seeds").json()
    assert sorted(found["runs"]) == ["broken", "done", "killed"], "not live, which takes more steps"
    step, value, low, high = found["series"]["success"][0]
    assert (step, value) == (1, pytest.approx(0.05))
    assert low <= value <= high


def test_metrics_are_read_as_they_grow(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = MetricsFile(path)
    metrics.refresh()
    assert metrics.series == {}, "a run that has not begun to write is no error"
    path.write_text(line(1) + line(2)[:20])
    metrics.refresh()
    assert [point[0] for point in metrics.series["loss"]] == [1], "half a line waits for its end"
    path.write_text(
        line(1)
        + line(2)
        + '{"step": 2, "eval/success": 0.5, "eval/episodes": 50, "x": null, "y": "text", "z": 1'
        + "0" * 400
        + "}\n"
    )
    metrics.refresh()
    assert [point[0] for point in metrics.series["loss"]] == [1, 2]
    assert "x" not in metrics.series
    assert "y" not in metrics.series
    assert "z" not in metrics.series, "no float holds it"
    (point,) = metrics.series["eval/success"]
    assert point[2] is not None
    assert point[2] < 0.5, "a rate has Wilson's interval"
    new = tmp_path / "new"
    new.write_text(line(1))
    new.replace(path)  # as a resumed run does
    metrics.refresh()
    assert [point[0] for point in metrics.series["loss"]] == [1]
    assert metrics.generation == 1


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    points: list[Point] = [(n, float(n), None, None) for n in range(4567)]
    kept = thinned(points, 1000)
    assert len(kept) <= 1000
    assert kept[-1] == points[-1]
    assert thinned(points[:7], 1000) == points[:7]


async def taken(events: AsyncIterator[str], count: int) -> list[tuple[str, Any]]:
    found = []
    async for event in events:
        if event.startswith("event: "):
            name, data = event.removeprefix("event: ").rstrip().split("\ndata: ", 1)
            found.append((name, json.loads(data)))
        if len(found) == count:
            break
    return found


async def test_a_new_line_becomes_an_event_with_only_its_points(runs: Path) -> None:
    found = Runs([runs])
    id = next(run.id for run in found.list() if run.name == "runs/live")
    events = live.changes(live.look_at_run(found, id), seconds=0.01)
    async with aclosing(events):
        first = dict(await taken(events, 2))
        assert len(first["points"]["series"]["loss"]) == 5
        assert first["run"]["state"] == "running"
        with (runs / "live" / "metrics.jsonl").open("a") as file:
            file.write(line(6))
        second = dict(await taken(events, 2))
        assert [point[0] for point in second["points"]["series"]["loss"]] == [6]
        assert second["run"]["step"] == 6
        training(runs / "other")
        (runs / "live" / "metrics.jsonl").unlink()
        (runs / "other" / "metrics.jsonl").rename(runs / "live" / "metrics.jsonl")
        third = dict(await taken(events, 2))
        assert third["points"]["reset"], "a resumed run starts its file again"
        assert len(third["points"]["series"]["loss"]) == 10


def test_a_look_finds_what_changed_and_nothing_else(runs: Path) -> None:
    found = Runs([runs])
    id = next(run.id for run in found.list() if run.name == "runs/done")
    look, folder = live.look_at_run(found, id), runs / "done"
    assert set(look()) == {"points", "run"}
    assert look() == {}
    with running(folder):
        assert look()["run"]["state"] == "running"
        assert look() == {}
    assert look()["run"]["state"] == "finished"
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(line(11))
    assert look()["points"]["series"]["loss"][0][0] == 11
    store = folder / "episodes"
    store.mkdir()
    (store / "_manifest.json").write_text("{}")
    assert "episodes" in look()["run"]["stores"]
    assert look() == {}
    shutil.rmtree(folder)
    assert look() == {"gone": True}


async def test_a_damaged_run_still_shows_its_curves(runs: Path) -> None:
    found = Runs([runs])
    id = next(run.id for run in found.list() if run.name == "runs/torn")
    async with aclosing(live.changes(live.look_at_run(found, id), seconds=0.01)) as events:
        first = dict(await taken(events, 2))
    assert first["points"]["series"]["loss"] == [[1, 1.0, None, None]]
    assert first["run"]["state"] == "damaged"
