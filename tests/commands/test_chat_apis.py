"""``turnwise eval`` and ``data`` with a model behind a chat API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from turnwise.agents.chat_apis import client
from turnwise.rollouts.store import load_episodes

from ..agents.chat_apis.fake_api import KEY, FakeApi, guesser

Run = Callable[..., Any]
NO_KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CHAT_API_KEY")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A server that answers at once; no key is set."""
    for name in NO_KEYS:
        monkeypatch.delenv(name, raising=False)
    server = FakeApi(guesser, latency=(0, 0))
    monkeypatch.setattr(client, "http_client", server.client)
    return server


def test_eval_plays_reports_and_resumes(run: Run, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_API_KEY", KEY)
    words = ("eval", "guess.py", "-p", "chat:https://api.test/v1#llama", "--price", "2,10", "--out", "runs/a")
    ran = run(*words, "-n", "3", "--max-cost", "1")
    assert ran.code == 0, ran.err
    assert "success 100.0 %" in ran.out
    assert "cost $0.00" in ran.out
    summary = json.loads(Path("runs/a/summary.json").read_text())
    assert summary["api"]["cost"] == pytest.approx(float(api.billed))
    assert summary["action_tokens"]["value"] == 20 * summary["turns"]["value"]
    for name in ("report.md", "report.html"):
        text = Path("runs/a", name).read_text()
        assert "latency" in text
        assert "cost" in text
    asked = len(api.requests)
    again = run(*words, "-n", "3", "--resume", "--no-report")
    assert again.code == 0, again.err
    assert len(api.requests) == asked, "nothing is asked twice"
    other = run(*words, "-n", "3", "--resume", "--no-report", "api.tools=text")
    other.refused("belongs to another run")
    stopped = run(*words, "-n", "50", "--resume", "--no-report", "--max-cost", "0.1", "max_tokens=8192")
    assert stopped.code == 2, "max_tokens is another run"


def test_a_cap_stops_with_what_was_played(run: Run, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    words = ("eval", "guess.py", "-p", "openai:gpt-4o", "--price", "2,10", "--out", "runs/a", "max_tokens=100")
    ran = run(*words, "-n", "40", "--max-cost", "0.012", "--no-report", "concurrency=2", "api.endpoint=chat")
    assert ran.code == 130, ran.err
    assert "interrupted at" in ran.err
    assert "the cap of $0.012 (--max-cost) is reached" in ran.out
    assert 0 < len(load_episodes("runs/a/episodes")) < 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-p", "openai:gpt-4o"], ["needs an API key: set the environment variable OPENAI_API_KEY"]),
        (["-p", "anthropic:claude-opus-5"], ["needs an API key", "ANTHROPIC_API_KEY"]),
        (["-p", "openai:gpt-4o", "api.key_variable=MINE"], ["environment variable MINE"]),
        (["-p", "chat:https://api.test/v1"], ["chat:URL#MODEL"]),
        (["-p", "chat:api.test#llama"], ["must look like http://host:port/v1"]),
        (["-p", "chat:https://me:secret@api.test#llama"], ["remove the key from the URL and put it into CHAT_API_KEY"]),
        (["-p", "openai:"], ["names no model; write openai:MODEL"]),
        (["-p", "chat:http://api.test#llama", "--max-cost", "1"], ["--max-cost needs a price", "--price IN,OUT"]),
        (["-p", "chat:http://api.test#llama", "--price", "3"], ["IN,OUT"]),
        (["-p", "chat:http://api.test#llama", "--cache", "guess.py"], ["cannot keep answers in guess.py"]),
        (["-p", "oracle", "--max-cost", "1"], ["reads api.max_cost, and 'oracle' is not one"]),
        (["-p", "oracle", "api.tools=text"], ["reads api.tools, and 'oracle' is not one"]),
        (["-p", "openai/gpt-4o"], ["write openai:gpt-4o"]),
        (["-p", "gpt-4o"], ["did you mean openai:gpt-4o?"]),
        (["-p", "claude-opus-5"], ["did you mean anthropic:claude-opus-5?"]),
        (["-p", "chat:http://api.test#llama"], ["a request without a key; set CHAT_API_KEY (401)"]),
    ],
    ids=lambda value: " ".join(value) if value[0] == "-p" else "",
)
def test_mistakes_are_one_line(run: Run, api: FakeApi, words: list[str], said: list[str]) -> None:
    ran = run("eval", "guess.py", "-n", "4", "--no-report", *words)
    ran.refused(*said)
    assert "secret" not in ran.err
    assert not api.requests, "nothing is played"


def test_data_from_an_api_is_a_store_like_any_other(run: Run, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    run("data", "guess.py", "-p", "oracle", "--skills", "1").refused("not both")
    run("data", "guess.py", "-p", "oracle", "--habits", "0.5").refused("use --habits or --policy, not both")
    ran = run("data", "guess.py", "-p", "openai:gpt-4o", "-n", "4", "--out", "runs/d", "--price", "1,1")
    assert ran.code == 0, ran.err
    assert pq.read_table("runs/d").num_rows == 4, "what is kept of the API is no part of the store"
    assert all(turn.by_chat_api for episode in load_episodes("runs/d") for turn in episode.turns)
