"""``turnwise push``, with the Hub's own client against a server that answers as the Hub does."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from turnwise.rollouts.store import load_episodes

huggingface_hub = pytest.importorskip("huggingface_hub", reason="turnwise[train] is not installed")

Run = Callable[..., Any]
TOKEN = "hf_" + "t" * 20


class Hub(BaseHTTPRequestHandler):
    """The routes of the Hub that a commit of small files takes."""

    files: ClassVar[dict[str, bytes]]
    made: ClassVar[list[dict[str, Any]]]
    commits: ClassVar[list[str]]
    status: ClassVar[int]
    """Status of a commit."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.answer(401, {"error": "unauthorized"})
        elif self.path == "/api/repos/create":
            self.made.append(json.loads(body))
            self.answer(200, {"url": self.url})
        elif self.path.endswith("/preupload/main"):
            files = [{"path": each["path"], "uploadMode": "regular"} for each in json.loads(body)["files"]]
            self.answer(200, {"files": [each | {"shouldIgnore": False, "oid": None} for each in files]})
        elif self.path.endswith("/commit/main") and self.status == 200:
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "header":
                    self.commits.append(value["summary"])
                elif line["key"] == "file":
                    self.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "deletedFile":
                    del self.files[value["path"]]
            self.answer(200, {"commitUrl": f"{self.url}/commit/c", "commitOid": "c", "success": True})
        else:
            self.answer(self.status, {"error": "no"})

    def do_GET(self) -> None:
        found = [{"type": "file", "path": name, "size": len(text), "oid": "o"} for name, text in self.files.items()]
        self.answer(200, found if "/tree/" in self.path else {"id": "me/mazes", "siblings": []})

    @property
    def url(self) -> str:
        return f"http://{self.headers['Host']}/datasets/me/mazes"

    def answer(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    Hub.files, Hub.made, Hub.commits, Hub.status = {"data/part-000009.parquet": b"old", "LICENSE": b"kept"}, [], [], 200
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield Hub
        server.shutdown()


@pytest.fixture
def episodes(run: Run) -> str:
    assert run("eval", "turnwise/Maze-v0", "-p", "oracle", "-n", "3", "--out", "runs/one", "--no-report").code == 0
    return "runs/one"


def test_a_store_becomes_one_commit_that_datasets_can_read(
    run: Run, hub: type[Hub], episodes: str, tmp_path: Path
) -> None:
    for _ in range(2):
        ran = run("push", episodes, "me/mazes", "--message", "Mazes")
        assert (ran.code, ran.out.strip().partition("/datasets/")[2]) == (0, "me/mazes"), ran.err
    assert hub.commits == ["Mazes"] * 2
    assert all(made.get("private") or made.get("visibility") == "private" for made in hub.made), "unless asked for"
    assert {(made["name"], made["type"]) for made in hub.made} == {("mazes", "dataset")}
    assert sorted(hub.files) == ["LICENSE", "README.md", "data/part-000000.parquet"], "the old part is gone"
    (tmp_path / "part.parquet").write_bytes(hub.files["data/part-000000.parquet"])
    sent, stored = pq.read_table(tmp_path / "part.parquet"), load_episodes(f"{episodes}/episodes")
    assert sent["episode_id"].to_pylist() == [episode.episode_id for episode in stored]
    card = hub.files["README.md"].decode()
    assert "data_files: data/*.parquet" in card
    assert "| turnwise/Maze-v0 | 3 | 3 | 1.000 | " in card
    assert 'load_dataset("me/mazes"' in card


def test_it_runs_in_a_process_that_has_loaded_nothing_of_the_hub(episodes: str) -> None:
    words = [sys.executable, "-m", "turnwise", "push", episodes, "me/mazes", "--dry-run"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, "nothing was sent" in ran.stderr) == (0, True), ran.stderr


def test_a_dry_run_sends_nothing_and_needs_no_token(
    run: Run, hub: type[Hub], episodes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    ran = run("push", episodes, "me/mazes", "--dry-run")
    assert ran.code == 0, ran.err
    assert re.search(r"^data/part-000000.parquet  [\d,]+ bytes$", ran.out, re.MULTILINE)
    assert "# mazes" in ran.out
    assert "nothing was sent" in ran.err
    assert (hub.made, hub.commits) == ([], [])


def test_what_goes_wrong_is_one_line_and_commits_nothing(
    run: Run, hub: type[Hub], episodes: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run("push", episodes, "me//mazes").refused("is not the name of a dataset")
    run("push", "runs/none", "me/mazes").refused("there are no episodes at runs/none")
    hub.status = 500
    assert "HTTP 500" in run("push", episodes, "me/mazes").err
    hub.status = 403
    run("push", episodes, "me/mazes").refused("refuses to write me/mazes (HTTP 403)")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    run("push", episodes, "me/mazes").refused("refuses to write me/mazes (HTTP 401)")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert "sending to the Hub failed" in run("push", episodes, "me/mazes").err
    run("push", episodes, "mazes").refused("write OWNER/mazes")
    assert hub.commits == []
