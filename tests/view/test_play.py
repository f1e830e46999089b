"""A human plays in the browser: what is recorded is an episode like any other, and nothing else can write."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnwise as tw
from turnwise.errors import StoreError, UsageError
from turnwise.rollouts.annotations import ANNOTATIONS, annotate, read_annotations
from turnwise.rollouts.store import EpisodeStore, load_episodes
from turnwise.tasks.spec import Split, TaskSpec
from turnwise.trainers.collect.demonstrations import stored
from turnwise.view.app import build_app
from turnwise.view.guard import KEY, LARGEST
from turnwise.view.play import Play
from turnwise.view.runs import Runs

from .browsing import MARKUP
from .conftest import TOKEN
from .fakes import episode, store

MAZE, SHOP = "turnwise/MazeFO-v0", "turnwise/Apps-v2"
HERE = "http://127.0.0.1:8484"


async def opened(root: Path, **more: Any) -> httpx.AsyncClient:
    """A browser on a viewer that may write."""
    app = build_app(Runs([root], wait=True), TOKEN, **more)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=HERE, follow_redirects=True)
    assert (await client.get(f"/?token={TOKEN}")).status_code == 200
    key = (await client.get("/api/writing")).json()["key"]
    client.headers.update({"Origin": HERE, **({KEY: key} if key else {})})
    return client


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    made = Play(MAZE, tmp_path / "runs" / "play")
    yield made
    await made.close()


def oracle_words(task: dict[str, Any]) -> list[str]:
    """The oracle's actions in a task of the maze."""
    env: Any = tw.make(MAZE)
    env.reset(options={"task": TaskSpec.from_json(task)})
    words, over = [], False
    while not over:
        words.append(env.unwrapped.oracle())
        over = env.step(words[-1])[2]
    env.close()
    return words


async def test_an_episode_is_recorded_and_is_a_demonstration(play: Play, tmp_path: Path) -> None:
    client = await opened(tmp_path / "runs", play=play)
    shown = (await client.get("/api/play")).json()
    assert (shown["playing"], shown["now"], shown["splits"][0]) == (False, None, "train")
    shown = (await client.post("/api/play/start", json={"split": "train", "level": 1})).json()
    words = oracle_words(shown["now"]["task"])
    for turn, word in enumerate(words):
        assert shown["asked"]
        assert len(shown["now"]["turns"]) == turn
        assert "goal" in json.dumps(shown["now"]["final"]), "the human sees the agent's observation"
        shown = (await client.post("/api/play/act", json={"turn": turn, "text": word})).json()
    assert not shown["playing"]
    assert shown["last"]["success"] is True
    (recorded,) = load_episodes(play.folder)
    assert [turn.action.text for turn in recorded.turns] == words
    assert recorded.episode_id == shown["last"]["episode"]
    found = await client.get(f"/api/runs/{shown['run']}/episode", params={"store": ".", "episode": recorded.episode_id})
    assert found.json()["success"] is True, "the page of the end leads to the record"
    again = (await client.post("/api/play/start", json={"split": "train", "level": 1})).json()
    assert again["now"]["task"] != {**found.json()["task"]}, "the next episode is of another task"
    await client.post("/api/play/stop", json={})
    assert len(load_episodes(play.folder)) == 1, "an episode that is given up is not recorded"
    assert [each.episode_id for each in stored(str(play.folder), MAZE, Split.TRAIN)] == [recorded.episode_id]


async def test_a_turn_is_answered_once(play: Play, tmp_path: Path) -> None:
    client = await opened(tmp_path / "runs", play=play)
    start = {"split": "train", "level": 1}
    await client.post("/api/play/start", json=start)
    assert (await client.post("/api/play/start", json=start)).status_code == 400, "one episode at a time"
    first = await client.post("/api/play/act", json={"turn": 0, "text": "move up"})
    assert len(first.json()["now"]["turns"]) == 1
    for turn in (0, 2, -1):
        late = await client.post("/api/play/act", json={"turn": turn, "text": "move up"})
        assert late.status_code == 400
        assert "this turn has its action" in late.json()["detail"]
    for wrong in ({"split": "none", "level": 1}, {"split": "train", "level": 99}):
        await client.post("/api/play/stop", json={})
        assert (await client.post("/api/play/start", json=wrong)).status_code == 400
    malformed: list[Any] = [{}, {"turn": 0, "text": 3}, {"turn": 0, "calls": [{"name": 3}]}, [], "text"]
    for body in malformed:
        assert (await client.post("/api/play/act", json=body)).status_code == 422


async def test_a_tool_is_called_with_its_arguments(tmp_path: Path) -> None:
    play = Play(SHOP, tmp_path / "play")
    client = await opened(tmp_path, play=play)
    shown = (await client.post("/api/play/start", json={"split": "train", "level": 1})).json()
    forms = {tool["name"]: tool["parameters"] for tool in shown["tools"]}
    assert forms["todo_search"]["type"] == "object"
    assert "contacts_search" not in forms, "a task offers its own tools, as to an agent"
    calls = [{"name": "todo_lists", "arguments": {}}, {"name": "nothing", "arguments": {"x": MARKUP}}]
    shown = (await client.post("/api/play/act", json={"turn": 0, "calls": calls})).json()
    assert [call["name"] for call in shown["now"]["turns"][0]["calls"]] == ["todo_lists", "nothing"]
    assert [each["role"] for each in shown["now"]["final"]] == ["tool", "tool"]
    assert "nothing" in json.dumps(shown["now"]["final"][1]), "a refused call is an observation"
    await play.close()


async def test_one_viewer_writes_to_a_folder(play: Play, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is writing to"):
        Play(MAZE, play.folder)
    await play.close()
    with pytest.raises(StoreError, match="env"):
        Play(SHOP, play.folder)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({KEY: None}, 403),
        ({KEY: "0" * 64}, 403),
        ({"Cookie": "other=1"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Content-Length": str(LARGEST + 1)}, 413),
        ({"Content-Length": "-1"}, 413),
        ({"Content-Length": None}, 413),
        ({}, 200),
    ],
)
async def test_only_its_own_pages_write(play: Play, tmp_path: Path, change: dict[str, str | None], status: int) -> None:
    client = await opened(tmp_path / "runs", play=play)
    request = client.build_request("POST", "/api/play/stop", json={})
    for name, value in change.items():
        request.headers.pop(name, None)
        if value is not None:
            request.headers[name] = value
    assert (await client.send(request)).status_code == status
    assert (await client.request("OPTIONS", "/api/play/stop")).status_code == 405, "no preflight is answered"


async def test_a_viewer_that_was_not_asked_to_write_only_reads(tmp_path: Path) -> None:
    path = store(tmp_path / "run" / "episodes", [episode("e")])
    client = await opened(tmp_path)
    assert (await client.get("/api/writing")).json() == {"key": None, "play": None, "annotate": False}
    for address in ("/api/play/start", "/api/play/act", "/api/play/stop", "/api/note"):
        assert (await client.post(address, json={})).status_code == 405
    assert (await client.get("/api/play")).status_code == 404
    assert not (path / ANNOTATIONS).exists()


async def test_a_comment_stays_with_its_episode(tmp_path: Path) -> None:
    path = store(tmp_path / "run" / "episodes", [episode("e"), episode("f")])
    client = await opened(tmp_path, annotate=True)
    (run,) = (await client.get("/api/runs")).json()
    where = {"store": "episodes", "episode": "e"}
    for label in ("bad", "good"):
        note = {"run": run["id"], **where, "label": label, "comment": MARKUP}
        assert (await client.post("/api/note", json=note)).status_code == 200
    shown = (await client.get(f"/api/runs/{run['id']}/episode", params=where)).json()["annotation"]
    assert (shown["label"], shown["comment"]) == ("good", MARKUP), "the last one counts"
    assert list(read_annotations(path)) == ["e"]
    for wrong in ({"episode": "none"}, {"store": "../.."}, {"run": "none"}):
        assert (await client.post("/api/note", json={"run": run["id"], **where, **wrong})).status_code == 404
    assert (await client.post("/api/note", json={"run": run["id"], **where, "label": "x" * 101})).status_code == 400
    await client.post("/api/note", json={"run": run["id"], **where})
    assert read_annotations(path) == {}, "an empty one removes it"
    assert len(load_episodes(path)) == 2, "the store is as it was"
    annotate(path, "e", label="old")
    EpisodeStore(path, overwrite=True).close()
    assert read_annotations(path) == {}, "an episode of the same id that is played again is another one"


def test_a_link_in_a_store_of_others_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "profile"
    outside.write_text("kept")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / ANNOTATIONS).symlink_to(outside)
    with pytest.raises(StoreError, match="cannot write"):
        annotate(tmp_path / "store", "$(touch pwned)", label="x")
    assert (outside.read_text(), read_annotations(tmp_path / "store")) == ("kept", {})
    (tmp_path / "store" / ANNOTATIONS).unlink()
    os.mkfifo(tmp_path / "store" / ANNOTATIONS)
    with pytest.raises(StoreError, match="not a regular file"):
        annotate(tmp_path / "store", "e", label="x")


def test_a_damaged_annotation_costs_no_other(tmp_path: Path) -> None:
    annotate(tmp_path, "e\ud800", label=" good ")
    assert read_annotations(tmp_path)["e\ud800"].label == "good"
    with (tmp_path / ANNOTATIONS).open("ab") as file:
        file.write(b'{"episode_id": "e"}\n\xff\n{"episode_id": ["e"], "label": "x", "comment": "", "time": 0}\n{"epis')
    annotate(tmp_path, "f", comment="after a crash")
    assert {id: (each.label, each.comment) for id, each in read_annotations(tmp_path).items()} == {
        "e\ud800": ("good", ""),
        "f": ("", "after a crash"),
    }
    with pytest.raises(UsageError, match="at most 10,000"):
        annotate(tmp_path, "e", comment="x" * 10_001)
