"""An export shows what the viewer shows, from files only, and never writes where a run does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from turnwise.errors import UsageError
from turnwise.view.episode_index import EpisodeIndex
from turnwise.view.export import bundle, export, key
from turnwise.view.queries import Query, page
from turnwise.view.runs import Runs
from turnwise.view.text_search.searcher import Searcher

from .browsing import PATIENCE, look, ready
from .fakes import episode, store

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def data(folder: Path, name: str) -> Any:
    """Read a file of data as a browser does."""
    text = (folder / "data" / f"{name}.js").read_text()
    handed = json.loads(text.removeprefix("turnwiseData(").removesuffix(");\n").partition(",")[2])
    return json.loads(handed)


def test_files_hold_the_answers_of_the_viewer(
    shared: Path, client: TestClient, ids: dict[str, str], tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in shared.rglob("*")}
    export(Runs([shared]), tmp_path / "site", episodes=3)
    assert {path: path.stat().st_mtime_ns for path in shared.rglob("*")} == before, "nothing is written into runs"
    index = data(tmp_path / "site", "index")
    assert len(client.get("/api/runs").json()) == len(ids) > 4
    for name, id in ids.items():
        asked = client.get(f"/api/runs/{id}").json()
        assert data(tmp_path / "site", index["files"][f"api/runs/{id}"]) == asked, name
    run, given = ids["runs/done"], {"store": "training_episodes"}
    folder = index["stores"][f"{run}/training_episodes"]
    rows = client.get(f"/api/runs/{run}/episodes", params=given).json()["rows"]
    stored = data(tmp_path / "site", f"{folder}/episodes")["rows"]
    assert [{n: v for n, v in row.items() if n != "group_file"} for row in stored] == rows
    for number, row in enumerate(rows[:3]):
        named = given | {"episode": row["episode_id"]}
        found = data(tmp_path / "site", f"{folder}/{number}")
        for what in ("episode", "tree"):
            assert found[what] == client.get(f"/api/runs/{run}/{what}", params=named).json()
    assert not (tmp_path / "site" / "data" / folder / "3.js").exists(), "the limit counts"
    sides = {"a": run, "a_store": "training_episodes", "b": ids["runs/eval"], "b_store": "episodes"}
    compared = data(tmp_path / "site", index["files"][key("api/compare", sides)])
    assert compared == client.get("/api/compare", params=sides).json()
    assert "secret-of-the-api" not in "".join(file.read_text() for file in (tmp_path / "site").rglob("*.js"))


def test_the_report_is_one_of_the_pages(tmp_path: Path) -> None:
    store(tmp_path / "run" / "episodes", [episode("e")])
    first = export(Runs([tmp_path / "run"]), tmp_path / "site")
    assert 'href="report.html"' in first.read_text()
    assert (tmp_path / "site" / "report.html").is_file()
    assert not (tmp_path / "run" / "report.html").exists()


def test_an_export_never_writes_over_something(tmp_path: Path) -> None:
    run = store(tmp_path / "run" / "episodes", [episode("e")]).parent
    os.symlink(run, tmp_path / "link")
    for inside in (run, run / "site", tmp_path / "link" / "site"):
        with pytest.raises(UsageError, match="lies in the folder of a run"):
            export(Runs([run]), inside)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    for there in (tmp_path / "full", tmp_path / "full" / "thesis.txt"):
        with pytest.raises(UsageError, match="exists already"):
            export(Runs([run]), there)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "link", "run"]


def test_the_bundle_has_every_module_once_and_no_import() -> None:
    lines = bundle().splitlines()
    assert not [line for line in lines if line.startswith(("import ", "export "))]
    modules = [line.split()[1] for line in lines if line.startswith("const module_")]
    assert len(modules) == len(set(modules)) > 8
    assert modules[-1] == "module_app", "a module follows those that it imports"


@pytest.mark.slow
def test_the_pages_work_from_files(browser: Browser, browsed: Path, tmp_path: Path) -> None:
    address = export(Runs([browsed]), tmp_path / "site").as_uri()
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    context.set_default_timeout(PATIENCE)
    page_, problems = context.new_page(), list[str]()
    page_.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page_.on("pageerror", lambda error: problems.append(str(error)))
    requests = list[str]()
    page_.on("request", lambda request: requests.append(request.url))

    def visit(hash: str) -> None:
        page_.goto(address + hash)
        ready(page_)

    visit("#/")
    look(page_, "runs")
    ids = {run.name: run.id for run in Runs([browsed]).list()}
    visit(f"#/run/{ids['runs/odd']}")
    page_.wait_for_selector("[data-chart='Loss'][data-points='3']")
    page_.select_option("select[aria-label='Add a chart']", "__proto__")
    page_.wait_for_selector("[data-chart='__proto__'][data-points='3']")
    visit(f"#/run/{ids['runs/done']}")
    page_.wait_for_selector("[data-explained]")
    page_.click("button:text-is('Average over seeds')")
    page_.wait_for_selector("text=Mean of 3 runs")
    snapshot = EpisodeIndex(browsed / "eval" / "episodes").snapshot()
    for query in (
        "success=false&level=2&sort=-total_reward",
        "turns_min=1&sort=level&offset=50",
        "id=t1&total_reward_max=0.5&sort=-seed",
        "template=none",
    ):
        visit(f"#/run/{ids['runs/eval']}/episodes?store=episodes&{query}")
        shown = page_.locator("tbody tr .name a").all_inner_texts()
        asked = Query.read(dict(each.split("=") for each in query.split("&")))
        assert shown == [row["episode_id"] for row in page(snapshot, asked, Searcher()).rows], query
    visit(f"#/run/{ids['runs/done']}/episode?store=training_episodes&episode=e0")
    assert page_.locator(".turn").count() == 3
    look(page_, "episode")
    page_.click("a:text-is('Group side by side')")
    page_.wait_for_selector("[data-divergence]:text-matches('first differ in turn 2')")
    (hostile,) = (id for name, id in ids.items() if "onerror" in name)
    visit(f"#/run/{hostile}/episode?store=episodes&episode=bad%3Ci%3E")
    page_.evaluate("document.querySelector('.message img').decode()")
    assert page_.evaluate("window.owned") is None
    assert page_.locator("main script, main b:text-is('bold'), main img[src='x']").count() == 0
    visit(f"#/run/{hostile}/episode?store=episodes&episode=long")
    # An export has whole texts, and a long one is shown after the page is ready.
    page_.wait_for_selector(".message.user pre:has-text('END')")
    visit("#/run/..%2F..%2Fetc/episode?store=episodes&episode=long")
    assert "not in the export" in page_.inner_text(".problem")
    context.close()
    assert problems == []
    assert all(url.startswith("file:///") for url in requests), "nothing is loaded from a network"
