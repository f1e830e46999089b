"""Pre-training at nano scale: it learns, stops and resumes to the same bits, and its model loads everywhere."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from turnwise.config import load_config
from turnwise.errors import CheckpointError, DivergedError, UsageError
from turnwise.trainers.behavior_cloning import CloningConfig
from turnwise.trainers.behavior_cloning import train as clone
from turnwise.trainers.pretrain import pretrain
from turnwise.trainers.pretraining.pretraining import Pretraining
from turnwise.trainers.pretraining.settings import PretrainConfig
from turnwise.trainers.run.metrics import StepProgress, read_metrics
from turnwise.trainers.run.run_folder import RunFolder

SMALL: dict[str, Any] = {
    "steps": 6,
    "warmup": 1,
    "batch_tokens": 256,
    "microbatch_tokens": 128,
    "context": 64,
    "long_context": 128,
    "long_every": 3,
    "checkpoint_every": 2,
    "threads": 1,
    "progress": False,
    "tracking": {"to": []},
    "nano": {"size": "0.1M", "layers": 1, "hidden": 32, "vocab_size": 300, "context_length": 2048},
    "text": {"wikis": 2, "pages": 60, "episodes": [{"env": "turnwise/Wordle-v1", "episodes": 8, "levels": [1]}]},
    "eval": {"every": 3, "documents": 2, "probes": 2},
}


def small(out: Path, **settings: Any) -> PretrainConfig:
    return load_config(PretrainConfig, settings={**SMALL, "out": str(out), **settings})


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model" / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("pretraining") / "whole"
    pretrain(small(out))
    return out


@pytest.mark.slow
def test_a_run_ends_in_a_model_that_transformers_loads(whole: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(whole / "model")
    tokenizer: Any = AutoTokenizer.from_pretrained(whole / "model")
    assert model.config.model_type == "qwen3"
    text = "Zyxwvut 1234 — naïve"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text, "a name that it has never seen"
    assert len([id for id in ids if tokenizer.decode([id]).strip().isdigit()]) == 4, "each digit is a token"
    assert tokenizer.unk_token is None
    said = [{"role": "user", "content": "a"}]
    assert tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False) == "<user>a<ai>"


def test_metrics_have_every_step_and_each_evaluation(whole: Path) -> None:
    lines = read_metrics(whole / "metrics.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]
    evaluations = [line for line in lines if "probe/copy" in line]
    assert [line["step"] for line in evaluations] == [0, 3, 6]
    assert {"held_out/wiki", "held_out/wordle", "held_out/hints", "probe/hints"} <= evaluations[0].keys()
    assert evaluations[-1]["held_out/wiki"] < evaluations[0]["held_out/wiki"], "it learns"


@pytest.mark.slow
@pytest.mark.shift
def test_the_speed_shown_is_of_a_round_of_short_and_long_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[float] = []

    def show(_: StepProgress, numbers: dict[str, float], **__: bool) -> None:
        shown.extend(rate for name, rate in numbers.items() if name == "tokens_per_second")

    monkeypatch.setattr(StepProgress, "show", show)
    pretrain(small(tmp_path / "run", eval={"every": 0, "documents": 1, "probes": 1}))
    seconds = [
        256 / line["tokens_per_second"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "lr" in line
    ]
    for step, rate in enumerate(shown, start=1):
        last = seconds[max(0, step - 3) : step]
        assert rate == pytest.approx(256 * len(last) / sum(last)), "every third step has long rows"
    assert len(shown) == 6


def test_a_resumed_run_ends_with_the_same_bits(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn, out = Pretraining.learn, tmp_path / "resumed"

    def interrupted(run: Pretraining) -> dict[str, float]:
        if run.step == 3:
            os.kill(os.getpid(), signal.SIGINT)  # the step is finished, and the checkpoint is written
        return learn(run)

    monkeypatch.setattr(Pretraining, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pretrain(small(out))
    monkeypatch.undo()
    assert not (out / "model").exists()
    assert [line["step"] for line in read_metrics(out / "metrics.jsonl") if "loss" in line] == [1, 2, 3, 4]
    pretrain(small(out, resume=True))
    assert same(weights(whole), weights(out)), "resuming must not change a bit"


@pytest.mark.slow
@pytest.mark.shift
def test_an_interruption_in_an_evaluation_loses_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate, out = Pretraining.evaluate, tmp_path / "interrupted"

    def interrupted(run: Pretraining) -> dict[str, float]:
        if run.step == 3:  # whose checkpoint is not due
            os.kill(os.getpid(), signal.SIGINT)
        return evaluate(run)

    monkeypatch.setattr(Pretraining, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pretrain(small(out))
    assert RunFolder(out, "pretrain").checkpoints.latest().step == 3


@pytest.mark.slow
@pytest.mark.shift
def test_a_run_that_was_killed_continues_from_its_checkpoint(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, out = Pretraining.learn, tmp_path / "killed"

    def killed(run: Pretraining) -> dict[str, float]:
        if run.step == 5:
            raise MemoryError
        return learn(run)

    monkeypatch.setattr(Pretraining, "learn", killed)
    with pytest.raises(MemoryError):
        pretrain(small(out))
    monkeypatch.undo()
    pretrain(small(out, resume=True))
    assert same(weights(whole), weights(out))


@pytest.mark.slow
@pytest.mark.shift
def test_another_seed_makes_another_model(whole: Path, tmp_path: Path) -> None:
    pretrain(small(tmp_path / "other", seed=1))
    assert not same(weights(whole), weights(tmp_path / "other"))


def test_a_taken_folder_and_other_settings_are_refused(whole: Path) -> None:
    with pytest.raises(UsageError, match="holds a run already"):
        pretrain(small(whole))
    with pytest.raises(CheckpointError, match=r"lr was 0\.002, now 0\.1"):
        pretrain(small(whole, resume=True, lr=0.1))


def test_an_unknown_environment_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Wordle"):
        pretrain(small(tmp_path / "run", text={"episodes": [{"env": "turnwise/Wordl-v1"}]}))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pretraining, "_loss", lambda run, ids, weights: torch.tensor(math.nan, requires_grad=True))
    with pytest.raises(DivergedError, match=r"step 1: loss nan .* lower lr"):
        pretrain(small(tmp_path, eval={"every": 3, "documents": 1, "probes": 1}))


def test_the_rate_rises_and_falls() -> None:
    config = PretrainConfig(lr=1.0, warmup=10, steps=110, final_lr=0.1)
    assert [config.rate(step) for step in (0, 9, 10)] == pytest.approx([0.1, 1.0, 1.0])
    assert config.rate(60) == pytest.approx(0.55)
    assert config.rate(110) == pytest.approx(0.1)


@pytest.mark.slow
def test_the_model_is_a_start_for_every_trainer(whole: Path, tmp_path: Path) -> None:
    words = [f"model={whole / 'model'}", f"out={tmp_path}", "steps=1", "batch=4", "threads=1", "progress=false"]
    words += ["levels=[1]", "demonstrations.count=4", "episodes.concurrency=4", "eval.episodes=2", "agent.max_tokens=8"]
    result = clone(load_config(CloningConfig, None, ["env=turnwise/Wordle-v1", *words]))
    assert result.steps == 1
    before, after = AutoTokenizer.from_pretrained(whole / "model"), AutoTokenizer.from_pretrained(result.model)
    assert after.chat_template == before.chat_template
    assert after.get_vocab() == before.get_vocab()
