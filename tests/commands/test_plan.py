"""``turnwise plan``: what a run needs, what to change, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
SHIPPED = [
    "archer-qwen-0.5b",
    "grpo-qwen-0.5b",
    "loop-qwen-0.5b",
    "ppo-qwen-0.5b",
    "qwen3-0.6b-archer",
    "qwen3-0.6b-loop",
    "qwen3-4b-lora-loop",
    "qwen3-8b-loop-8gpu",
]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_configurations_fit_the_gpus_that_they_name(run: Run, name: str) -> None:
    ran = run("plan", name, "--gpu", "h100:8" if name.endswith("8gpu") else "h100", "--price", "2.5")
    assert ran.code == 0
    assert "activations" in ran.out or "keys and values (play)" in ran.out, "whichever moment needs more"
    for said in ("fits", "weights", "optimizer", "tokens per second", "dollars", "seconds of a step"):
        assert said in ran.out
    assert "How sure" in ran.err
    assert "arithmetic that no GPU" in ran.err


def test_a_run_that_cannot_fit_is_one_line_with_the_smallest_change_that_fits(run: Run) -> None:
    ran = run("plan", "qwen3-0.6b-loop", "model=models/qwen3-4b", "--gpu", "h100:1")
    assert ran.code == 1
    assert "does not fit" in ran.out
    last = ran.err.strip().splitlines()[-1]
    assert "models/qwen3-4b needs" in last
    assert "the smallest change that fits: lora.rank=16" in last


def test_the_profile_is_that_of_the_gpu_unless_it_is_set(run: Run, tmp_path: Path) -> None:
    assert "passes of 16,384" in run("plan", "qwen3-0.6b-loop", "--gpu", "h100").out
    assert "passes of 32,768" in run("plan", "qwen3-0.6b-loop", "--gpu", "h200").out
    assert "passes of 4,096" in run("plan", "qwen3-0.6b-loop", "hardware.profile=cpu", "--tokens", "4096").out


def test_a_runs_own_settings_can_be_planned(run: Run, tmp_path: Path) -> None:
    from turnwise.trainers.options import configured, located

    config = configured("loop", located("qwen3-0.6b-loop")).model_dump(mode="json")
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"algorithm": "loop", "config": config}, indent=1))
    assert run("plan", str(file), "--gpu", "h100").code == 0


def test_an_on_policy_rule_of_the_user_can_be_planned(run: Run, tmp_path: Path) -> None:
    (tmp_path / "planned_rule.py").write_text(
        "from typing import ClassVar\n"
        "from turnwise.trainers import Algorithm\n"
        "from turnwise.trainers.algorithms.ilql import ILQL as Values\n"
        "class Mine(Algorithm):\n"
        "    needs_values: ClassVar[bool] = True\n"
        "    name: str = 'mine'\n"
        "    def credit(self, batch, values): ...\n"
    )
    settings = 'env = "turnwise/Maze-v0"\nmodel = "models/qwen3-0.6b"\n[agent]\nmax_batch = 8\n[algorithm]\n'
    (tmp_path / "mine.toml").write_text(f'{settings}name = "planned_rule:Mine"\n')
    ran = run("plan", "mine.toml")
    assert ran.code == 0, ran.err
    assert " critic " in ran.out, "the rule needs one"
    (tmp_path / "values.toml").write_text(f'{settings}name = "planned_rule:Values"\n')
    run("plan", "values.toml").refused("planned_rule:Values must be a subclass of turnwise.trainers.Algorithm")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no configuration 'nowhere': name a TOML file"),
        (["qwen3-0.6-loop"], "did you mean 'qwen3-0.6b-loop' or"),
        (["qwen3-0.6b-loop", "--gpu", "h1000"], "no figures are known of GPU 'h1000'; choose from a100"),
        (["qwen3-0.6b-loop", "--gpu", "h100:none"], "write the number of GPUs after a colon, as h100:8"),
        (["qwen3-0.6b-loop", "--gpu", "h100:2"], "server.engine is for one process"),
        (["qwen3-0.6b-archer", "model=x", "--gpu", "h100"], "the shape of 'x' is not known"),
        (["qwen3-0.6b-loop", "stepz=3"], "there is no setting 'stepz'"),
        (["qwen3-0.6b-loop", "--trial", "/nowhere"], "there is no trial in /nowhere: name the output folder"),
        (["bc-maze"], "builds its model from scratch"),
        (["pretrain-2m"], "does not show its algorithm"),
        (["loop-maze", "--algorithm", "grop"], "unknown algorithm 'grop'"),
    ],
)
def test_mistakes_are_one_line(run: Run, words: list[str], said: str) -> None:
    ran = run("plan", *words)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert len(ran.err) < 400, "a few names, and where the others are"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["qwen3-0.6b-archer", "model=x"], "the shape of 'x' is not known"),
        (["qwen3-0.6b-loop", "--trial", "/nowhere"], "there is no trial in /nowhere"),
        (["loop-maze", "--algorithm", "grop"], "unknown algorithm 'grop'"),
        (["pretrain-2m"], "does not show its algorithm"),
        (["loop", "--config", "qwen3-0.6b-loop"], "turnwise plan qwen3-0.6b-loop"),
    ],
)
def test_what_needs_no_torch_is_refused_before_its_import(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    def imports(_: str) -> None:
        raise AssertionError("torch is imported here, which may take half a minute")

    monkeypatch.setattr("turnwise.commands.plan.train_extra", imports)
    ran = run("plan", *words)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert said in ran.err


def test_rows_beyond_the_models_context_are_said_to_be_cut(run: Run) -> None:
    cut = "--tokens 50000 is more than the model's context: rows of 40960 are planned"
    assert cut in " ".join(run("plan", "qwen3-0.6b-loop", "--tokens", "50000", "--gpu", "h200").err.split())
    assert "more than" not in run("plan", "qwen3-0.6b-loop", "--tokens", "40960", "--gpu", "h200").err
