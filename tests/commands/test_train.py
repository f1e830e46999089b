"""``turnwise train``: a nano model trained from the command line, stopped, resumed and evaluated."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.envs import registry
from turnwise.rollouts.store import load_episodes

pytestmark = pytest.mark.slow
Run = Callable[..., Any]

SMALL = (
    "env=turnwise/MazeFO-v0", "nano.size=0.1M", "agent.context=last:1", "agent.max_tokens=4", "demonstrations.count=8",
    "eval.episodes=0", "batch=8", "checkpoint_every=1", "threads=1", "tracking.to=[]",
)  # fmt: skip


def test_settings_are_listed_with_their_meaning(run: Run) -> None:
    for algorithm in ("loop", "bc"):
        listed = run("train", algorithm, "--settings").out
        for setting in ("env (required)", "optimizer.lr", "checkpoint_every"):
            assert setting in listed


def test_clone_then_loop_then_eval(run: Run) -> None:
    ran = run("train", "bc", *SMALL, "steps=2", "--out", "runs/bc")
    assert ran.code == 0, ran.err
    assert run("report", "runs/bc").code == 0
    made = json.loads(Path("runs/bc/config.json").read_text())["made"]
    for page in ("report.md", "report.html"):
        assert made["date"] in Path("runs/bc", page).read_text(encoding="utf-8")
    assert ran.out.strip() == "runs/bc/model", "the model's folder goes to standard output, for a pipe"
    assert "bc 1/2  loss " in ran.err, "a log file shows that it lives"
    words = [word for word in SMALL if not word.startswith(("nano", "demonstrations", "batch"))]
    ran = run(
        "train",
        "loop",
        *words,
        "model=runs/bc/model",
        "steps=1",
        "tasks_per_step=2",
        "group_size=2",
        "--out",
        "runs/loop",
    )
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in Path("runs/loop/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 1
    assert "success on training tasks in step 1: " in ran.err, "the number that everyone wants is the last line"
    ran = run("eval", "turnwise/MazeFO-v0", "-p", "runs/loop/model", "-n", "2", "--split", "train", "--no-report")
    assert ran.code == 0, ran.err
    assert "success" in ran.out
    run("train", "bc", *SMALL, "steps=2", "--out", "runs/bc").refused("runs/bc", "resume")
    run("train", "bc", *SMALL, "steps=3", "seed=5", "--out", "runs/bc", "--resume").refused("seed")


def test_training_episodes_are_kept_to_be_read(run: Run) -> None:
    assert run("train", "bc", *SMALL, "steps=1", "--out", "runs/bc").code == 0
    words = [word for word in SMALL if not word.startswith(("nano", "demonstrations", "batch"))]
    words += [
        "episodes.env_kwargs.max_turns=2",
        "model=runs/bc/model",
        "tasks_per_step=2",
        "group_size=2",
        "--out",
        "runs/loop",
    ]
    assert run("train", "loop", *words, "steps=1", "keep_episodes=sample").code == 0
    assert run("train", "loop", "--out", "runs/loop", "--resume", "steps=2", "keep_episodes=all").code == 0
    steps = [episode.fingerprints["step"] for episode in load_episodes("runs/loop/training_episodes")]
    assert sorted(steps) == ["1"] * 2 + ["2"] * 4
    assert run("export", "runs/loop/training_episodes", "said.jsonl", "-f", "atif").code == 0
    assert not Path("runs/bc/training_episodes").exists()


def test_a_run_that_taught_nothing_says_so_and_why(run: Run) -> None:
    cloned = run("train", "bc", *SMALL, "steps=1", "--out", "runs/bc")
    assert "trained 1 step\n" in cloned.err
    words = [word for word in SMALL if not word.startswith(("nano", "demonstrations", "batch", "agent.max_tokens"))]
    words += [
        "agent.max_tokens=1",
        "episodes.env_kwargs.max_turns=2",
        "model=runs/bc/model",
        "tasks_per_step=2",
        "group_size=2",
    ]
    ran = run("train", "loop", *words, "steps=1", "--out", "runs/loop")  # no move of the maze is one token
    assert ran.code == 0, ran.err
    said = "nothing was learned in step 1: in 2 groups all attempts at a task had the same return"
    assert ran.err.count(said) == 1, ran.err
    assert "agent.max_tokens" in ran.err


def test_a_run_is_continued_and_repeated_from_its_own_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ("env=guess.py", *SMALL[1:])
    assert run("train", "bc", *mine, "steps=1", "--out", "runs/bc").code == 0
    for name in ("guess", "demo/GuessNumber-v0"):  # as in the shell of the next morning
        monkeypatch.delitem(sys.modules, name, raising=False)
        registry._entries.pop(name, None)
    ran = run("train", "bc", "steps=2", "--resume", "--out", "runs/bc")
    assert ran.code == 0, ran.err
    again = run("train", "bc", "--config", "runs/bc/config.json", "--out", "runs/again")
    assert again.code == 0, again.err
    one, other = (
        [json.loads(line)["loss"] for line in Path("runs", name, "metrics.jsonl").read_text().splitlines()]
        for name in ("bc", "again")
    )
    assert one == other, "the run that was continued is the run that was not"
    run("train", "bc", "--config", "runs/bc/config.json").refused("holds a run already", "--resume")
    run("train", "loop", "--resume", "--out", "runs/bc").refused("a run of 'bc': use `turnwise train bc`")
    run("train", "loop", "--resume", "--out", "runs/none").refused("there is no run in runs/none to resume")
    ran = run("train", "bc", "--resume")
    assert ran.out.strip() == "runs/bc/model", f"the default folder of bc: {ran.err}"
    run("train", "loop", "--resume").refused("there is no run in runs/loop to resume", "with --out")


def test_a_corrupt_checkpoint_is_named(run: Run) -> None:
    assert run("train", "bc", *SMALL, "steps=1", "--out", "runs/bc").code == 0
    checkpoints = sorted(Path("runs/bc/checkpoints").iterdir())
    for file in (file for folder in checkpoints for file in folder.rglob("*.safetensors")):
        file.write_bytes(file.read_bytes()[:64])
    run("train", "bc", *SMALL, "steps=2", "--out", "runs/bc", "--resume").refused("checkpoint", checkpoints[-1].name)


def test_ctrl_c_leaves_a_run_that_resumes(run: Run, ctrl_c: Callable[..., Any], tmp_path: Path) -> None:
    words = ("train", "bc", *SMALL, "--out", "runs/long")
    metrics = tmp_path / "runs" / "long" / "metrics.jsonl"
    stopped = ctrl_c((*words, "steps=4000"), lambda: metrics.exists() and len(metrics.read_text().splitlines()) > 3)
    stopped.interrupted()
    done = len(metrics.read_text().splitlines())
    ran = run(*words, f"steps={done + 2}", "--resume")
    assert ran.code == 0, ran.err
    steps = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
    assert steps == list(range(1, done + 3)), "every step stands there once"
