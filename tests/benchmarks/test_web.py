"""The comparison with BrowserGym plays the same episodes everywhere, tried on a stand-in for BrowserGym."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from turnwise.envs.web.chromium.launch import executable
from turnwise.errors import UsageError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)
BROWSERGYM = os.environ.get("TURNWISE_BROWSERGYM_PYTHON", "")
"""A Python in which BrowserGym is installed."""
FAKE = """
import json, os
class Page:
    def evaluate(self, script, told):
        return None if told[1] == "nowhere" else f"{told[0]}{told[1]}"
class Env:
    def __init__(self, id, settings):
        self.unwrapped, self.page, self.id, self.settings = self, Page(), id, settings
        self.note("made", settings)
    def note(self, *what):
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps([self.id, *what]) + "\\n")
    def reset(self, seed):
        self.note("reset", seed, os.environ["MINIWOB_URL"])
        return {"goal": "Click  something."}, {}
    def step(self, action):
        self.note("step", action)
        return {}, float("ONE" in action), True, False, {}
    def close(self):
        self.note("closed")
def make(id, **settings):
    return Env(id, settings)
"""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if importlib.util.find_spec("miniwob") is None:
        pytest.skip("NOT TESTED: the package miniwob is missing")
    try:
        executable()
    except UsageError as error:
        pytest.skip(f"NOT TESTED: {error}")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("web_miniwob")
    monkeypatch.undo()


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A Python that finds a stand-in for BrowserGym, and for Gymnasium and Playwright beside it."""
    library = tmp_path / "library"
    for name in ("browsergym/miniwob", "playwright/driver/package"):
        (library / name).mkdir(parents=True)
    (library / "gymnasium.py").write_text(FAKE)
    (library / "playwright/__init__.py").touch()
    (library / "browsergym/miniwob/__init__.py").touch()
    builds = {"browsers": [{"name": "firefox", "revision": "1"}, {"name": "chromium", "revision": "7"}]}
    (library / "playwright/driver/package/browsers.json").write_text(json.dumps(builds))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nNOTES={tmp_path}/notes PYTHONPATH={library} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def notes(python: Path) -> list[Any]:
    return [json.loads(line) for line in (python.parent / "notes").read_text().splitlines()]


async def test_a_task_has_one_environment_for_each_of_its_settings(bench: Any, stand_in: Path) -> None:
    async with bench.BrowserGym(str(stand_in)) as other:
        first = await other.play("click-test-2", 3, [["click", "ONE"]], {})
        await other.play("click-test-2", 4, [["click", "TWO"]], {"slow_mo": 0})
        await other.play("click-test-2", 5, [["click", "ONE"]], {})
        last = await other.play("enter-text", 3, [["type", 0, "it's"], ["focus", 1]], {})
    assert (first["asked"], first["solved"], len(first["steps"])) == ("Click  something.", True, 1)
    assert (last["solved"], len(last["steps"])) == (False, 2)
    noted = notes(stand_in)
    made = [one for one in noted if one[1] in ("made", "closed")]
    test, text = "browsergym/miniwob.click-test-2", "browsergym/miniwob.enter-text"
    assert made[:2] == [[test, "made", {}], [test, "made", {"slow_mo": 0}]]
    assert made[2:] == [[test, "closed"], [test, "closed"], [text, "made", {}], [text, "closed"]], "two browsers each"
    assert [one[2] for one in noted if one[1] == "step"][-2:] == ["fill('field0', \"it's\")", "click('field1')"]
    seeds = {tuple(one[2:]) for one in noted if one[1] == "reset"}
    pages = f"{(bench.installed() / 'miniwob').as_uri()}/"
    assert seeds == {(3, pages), (4, pages), (5, pages)}, "the pages are those that ours is played on"


async def test_an_episode_that_fails_ends_the_measurement(bench: Any, stand_in: Path) -> None:
    async with bench.BrowserGym(str(stand_in)) as other:
        with pytest.raises(SystemExit, match="click-link, seed 1"):
            await other.play("click-link", 1, [["click", "nowhere"]], {})


def test_what_differs_is_counted(bench: Any) -> None:
    def one(asked: str, solved: bool) -> dict[str, Any]:
        return {"asked": asked, "reset": 1.0, "steps": [2.0, 3.0], "solved": solved}

    found: dict[str, list[float]] = {}
    counts: dict[str, list[int]] = {}
    bench.noted({"ours": one("Click it.", True), "BrowserGym": one("Click\n it.", True)}, found, counts)
    bench.noted({"ours": one("Click it.", True), "BrowserGym": one("Click that.", False)}, found, counts)
    assert counts == {"ours": [2, 2, 2], "BrowserGym": [2, 1, 1]}
    assert found["MiniWoB, BrowserGym: step"] == [2.0, 3.0, 2.0, 3.0]
    assert found["MiniWoB, ours: reset"] == [1.0, 1.0]


def test_the_table_says_whether_browsergym_was_measured(bench: Any) -> None:
    web, figures = importlib.import_module("web"), {"HTML: step": {"median_ms": 1.0, "p90_ms": 2.0, "n": 3}}
    for more, said in (({}, "BrowserGym was not measured"), ({"counts": {"BrowserGym": [4, 4, 3]}}, "same request")):
        console = Console(record=True, width=100, quiet=False)
        web.shown({**figures, **more, "at once": {}}, console)
        assert said in console.export_text()


@pytest.mark.slow
async def test_ours_and_playwright_alone_play_what_is_asked(bench: Any, stand_in: Path) -> None:
    found: dict[str, list[float]] = {}
    counts = await bench.measured(str(stand_in), 1, found, ("enter-text",))
    for name in ("ours", "ours, with a picture", "Playwright alone"):
        assert counts[name] == [1, 1, 1], f"{name} solved what ours was asked"
        assert len(found[f"MiniWoB, {name}: step"]) == 2
    assert counts["BrowserGym"][1] == 0, "the stand-in asks something else"


@pytest.mark.shift
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not BROWSERGYM, reason="NOT TESTED: TURNWISE_BROWSERGYM_PYTHON names no Python with BrowserGym")
async def test_browsergym_plays_the_same_episodes(bench: Any) -> None:
    found: dict[str, list[float]] = {}
    counts = await bench.measured(BROWSERGYM, 1, found)
    number = len(bench.TASKS)
    assert set(map(tuple, counts.values())) == {(number, number, number)}, f"every episode is the same: {counts}"
