"""``turnwise tasks build-corpus`` and ``turnwise retrieve``: a corpus of one's own, made and served."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.tasks.search.stored import StoredCorpus

Run = Callable[..., Any]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "wiki.jsonl"
    pages = [
        {"id": "light", "title": "Lighthouse", "text": "A tower with a lamp."},
        {"id": "1", "contents": '"Oda Brandt"\nShe built towers. ' + "Stone upon stone. " * 40},
    ]
    path.write_text("\n".join(map(json.dumps, pages)))
    return path


def test_a_corpus_is_built(run: Run, lines: Path) -> None:
    ran = run("tasks", "build-corpus", str(lines), "wiki.corpus")
    assert ran.code == 0, ran.err
    assert "wiki.corpus: 2 pages of wiki" in ran.out
    assert [page.title for page in StoredCorpus("wiki.corpus")] == ["Lighthouse", "Oda Brandt"]
    assert run("tasks", "build-corpus", str(lines), "cut.corpus", "--words", "30").code == 0
    assert [page.id for page in StoredCorpus("cut.corpus")][:3] == ["light", "1#1", "1#2"]


def test_bad_lines_are_named(run: Run, lines: Path) -> None:
    lines.write_text(lines.read_text() + "\n{oops\n" * 15)
    run("tasks", "build-corpus", str(lines), "a.corpus").refused("wiki.jsonl:3: this is not valid JSON")
    assert not Path("a.corpus").exists(), "half a corpus is none"
    ran = run("tasks", "build-corpus", str(lines), "a.corpus", "--skip-bad")
    assert ran.code == 0, ran.err
    assert "left out:" in ran.err
    assert "5 more lines" in ran.err
    assert len(StoredCorpus("a.corpus")) == 2


def test_nothing_is_replaced_but_a_corpus(run: Run, lines: Path) -> None:
    before = lines.read_bytes()
    run("tasks", "build-corpus", str(lines), str(lines)).refused("is the source itself")
    run("tasks", "build-corpus", str(lines), str(lines), "--skip-bad").refused("is the source itself")
    other = lines.with_name("other.jsonl")
    other.write_text("{}")
    run("tasks", "build-corpus", str(lines), str(other)).refused("exists and is not a corpus")
    run("tasks", "build-corpus", str(lines), "/proc/a.corpus").refused("cannot write")
    assert (lines.read_bytes(), other.read_text()) == (before, "{}")
    for _ in range(2):
        assert run("tasks", "build-corpus", str(lines), "wiki.corpus").code == 0


def test_a_page_twice_is_named_by_its_line(run: Run, lines: Path) -> None:
    lines.write_text(lines.read_text() + '\n\n{"id": 1, "text": "again"}')
    run("tasks", "build-corpus", str(lines), "a.corpus").refused("wiki.jsonl:4: another page", "has the id '1'")
    ran = run("tasks", "build-corpus", str(lines), "a.corpus", "--skip-bad")
    assert ran.code == 0, ran.err
    assert "wiki.jsonl:4" in ran.err.replace("\n", "")
    assert [page.title for page in StoredCorpus("a.corpus")] == ["Lighthouse", "Oda Brandt"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("build-corpus", "nowhere", "x"), "there is no source nowhere"),
        (("build-corpus", "guess.py", "x"), r"ends in .jsonl"),
        (("build-corpus", "."), "name the file to write"),
        (("build-corpus", ".", "x", "--limit", "3"), "does not take --limit"),
        (("build-corpus", ".", "x", "--jobs", "3"), "does not take --jobs"),
        (("build-repair", "boltons", "x"), "does not take OUT"),
        (("build-repair", "boltons", "--words", "3"), "does not take --words"),
        (("build-corpora", "x"), "choose from build-repair, build-corpus"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_input_is_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    run("tasks", *words).refused(said)


def test_what_cannot_be_served_is_refused(run: Run, lines: Path) -> None:
    run("retrieve", "nowhere.corpus").refused("there is no corpus nowhere.corpus", "build-corpus")
    run("retrieve", str(lines)).refused("is not a corpus")
    assert run("tasks", "build-corpus", str(lines), "wiki.corpus").code == 0
    run("retrieve", "wiki.corpus", "--engine", "lucene").refused(
        "cannot serve with the engine 'lucene'", "fts5, tantivy"
    )
    run("retrieve", "wiki.corpus", "--engine", "http://127.0.0.1:1").refused("choose from fts5, tantivy")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_it_serves_until_it_is_told_to_end(run: Run, lines: Path, tmp_path: Path, kind: signal.Signals) -> None:
    assert run("tasks", "build-corpus", str(lines), str(tmp_path / "wiki.corpus")).code == 0
    words = [sys.executable, "-m", "turnwise.cli", "retrieve", "wiki.corpus", "--port", "0"]
    served = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert served.stdout is not None
    address = served.stdout.readline().decode().strip()
    assert address.endswith("/retrieve")
    body = json.dumps({"queries": ["who is Oda Brandt?"], "topk": 1, "return_scores": True}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
        (hits,) = json.load(answer)["result"]
    assert hits[0]["document"]["id"] == "1"
    served.send_signal(kind)
    _, complained = served.communicate(timeout=60)
    assert served.returncode == 0, complained.decode()
    assert b"Traceback" not in complained
