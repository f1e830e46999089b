"""``turnwise pretrain``: settings, refusals, and the table of probes."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwise.cli import main
from turnwise.config import load_config
from turnwise.inference.models import save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.tasks.text.skills import SKILLS
from turnwise.trainers.options import located
from turnwise.trainers.pretraining.settings import PretrainConfig


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["pretrain", *words])
    return int(end.value.code or 0)


def test_settings_are_listed_with_their_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--settings") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  steps [2400]  Training steps in all.") for line in lines)
    assert any(line.startswith("  nano.tokenizer [bpe-digits]") for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["turnwise/Maze-v0"], "pre-training takes settings such as steps=200, but no environment"),
        (["stpes=3"], "did you mean 'steps'?"),
        (["steps=0"], "setting 'steps'"),
        (["--probe", "there-is-none"], "there is no model at there-is-none"),
        (["--probe", "x", "steps=3"], "--probe takes a model's folder and -n; leave out settings"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) in (1, 2)
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_runs_of_training_and_pre_training_name_each_others_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, ours, said in (
        ("rloo", "pretrain", "turnwise train rloo"),
        ("pretrain", "train loop", "turnwise pretrain"),
    ):
        (tmp_path / "config.json").write_text(f'{{"algorithm": "{name}", "config": {{}}}}')
        for words in (["--config", f"{tmp_path}/config.json"], ["--resume", "--out", str(tmp_path)]):
            with pytest.raises(SystemExit):
                main([*ours.split(), *words])
            assert f"belongs to a run of '{name}': use `{said}`" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", "pretrain"])
    assert "a command of its own: turnwise pretrain" in capsys.readouterr().err


def test_a_model_is_probed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = build_tokenizer("byte")
    config = NanoConfig(size="0.1M", tokenizer="byte", layers=1, hidden=16)
    save_model(build_model(config, tokenizer), tokenizer, tmp_path / "model")
    assert run("--probe", str(tmp_path / "model"), "-n", "2") == 0
    out = capsys.readouterr().out
    assert all(skill in out for skill in SKILLS)
    assert "chance" in out


@pytest.mark.slow
@pytest.mark.shift
def test_a_run_resumes_with_the_settings_of_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["steps=2", "warmup=0", "batch_tokens=64", "context=64", "long_every=0", "threads=1", "tracking.to=[]"]
    words += ["nano.size=0.1M", "nano.layers=1", "nano.hidden=16", "text.transcripts=0", "text.exercises=0.9"]
    words += ["eval.documents=1", "eval.probes=1"]
    assert run("--out", str(tmp_path / "run"), *words) == 0
    assert run("--out", str(tmp_path / "run"), "--resume") == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [str(tmp_path / "run" / "model")] * 2
    assert "trained 2 steps" in said.err
    assert run("--out", str(tmp_path / "run")) == 2
    assert "holds a run already" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["2m", "8m", "30m"])
def test_presets_parse(size: str) -> None:
    config = load_config(PretrainConfig, located(f"pretrain-{size}"))
    assert config.nano.size.lower() == size
    assert config.out == f"runs/pretrain-{size}"
