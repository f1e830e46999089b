"""``turnwise endpoint`` and ``turnwise eval --program``: a model in front of programs of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.rollouts.episode import Outcome
from turnwise.rollouts.store import load_episodes

from ..service.fakes import LOOP, program

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model."""
    tokenizer = build_tokenizer("word", ["1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "Guess my number between 1 and 16."])
    folder = tmp_path_factory.mktemp("model") / "nano"
    save_model(build_model(NanoConfig(size="0.1M", layers=1, hidden=32), tokenizer), tokenizer, folder)
    return folder


def test_eval_plays_a_program(run: Run, model: Path, tmp_path: Path) -> None:
    command = " ".join(program(tmp_path / "agent.py", LOOP))
    words = ("eval", "guess.py", "--program", command, "--policy", str(model), "-n", "3", "--out", "runs/p")
    ran = run(*words, "max_tokens=3", "--no-report")
    assert ran.code == 0, ran.err
    episodes = load_episodes("runs/p/episodes")
    assert len(episodes) == 3
    for episode in episodes:
        assert episode.trainable
        assert all(turn.action_ids for turn in episode.turns)
    resumed = run(*words, "max_tokens=3", "--no-report", "--resume")
    assert resumed.code == 0, resumed.err
    other = program(tmp_path / "other.py", LOOP)
    words = ("eval", "guess.py", "--program", " ".join(other), "--policy", str(model), "-n", "3", "--out", "runs/p")
    run(*words, "max_tokens=3", "--no-report", "--resume").refused("program")


def test_a_program_that_never_works_is_no_zero_percent(run: Run, model: Path, tmp_path: Path) -> None:
    command = " ".join(program(tmp_path / "agent.py", "import no_such_module"))
    ran = run("eval", "guess.py", "--program", command, "--policy", str(model), "-n", "2", "--no-report")
    assert ran.code == 1
    assert "no_such_module" in ran.err


def test_bad_input_is_one_line(run: Run, model: Path) -> None:
    run("eval", "guess.py", "--program", "no-such-program x", "--policy", str(model)).refused(
        "program.command", "no-such-program"
    )
    run("eval", "guess.py", "--program", "python x.py", "--policy", "oracle").refused("oracle is not one")
    run("endpoint", "--policy", "random").refused("random is not one")
    run("endpoint", "--policy", str(model), "--key", "short").refused("can be guessed")


@pytest.mark.slow
@pytest.mark.shift
def test_the_endpoint_serves_records_and_ends_with_ctrl_c(model: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "turnwise.cli", "endpoint", "-p", str(model), "--port", "0", "--max-tokens", "3"]
    environment = {**os.environ, "TURNWISE_ENDPOINT_KEY": "a-key-of-some-length"}
    served = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert served.stdout is not None
    printed = dict(served.stdout.readline().decode().strip().split("=", 1) for _ in range(2))
    assert printed["OPENAI_API_KEY"] == "a-key-of-some-length"
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Guess my number"}]}).encode()
    headers = {"Authorization": "Bearer a-key-of-some-length", "Content-Type": "application/json"}
    address = f"{printed['OPENAI_BASE_URL']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
        usage = json.load(answer)["usage"]
    served.send_signal(2)
    _, said = served.communicate()
    assert served.returncode == 0, said.decode()
    assert "1 episodes in runs/endpoint" in said.decode()
    (episode,) = load_episodes(tmp_path / "runs/endpoint/episodes")
    assert episode.outcome is Outcome.CANCELLED
    assert len(episode.turns[0].action_ids) == usage["completion_tokens"]
    assert len(episode.turns[0].prompt_ids) == usage["prompt_tokens"]
