"""A run's messages before its first step, and its device unless a user names one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from turnwise.errors import UsageError
from turnwise.inference.models import load_model, resolve_device
from turnwise.trainers.critics.token_values import ValuesConfig, token_values
from turnwise.trainers.learning import rates
from turnwise.trainers.learning.lora import LoraConfig
from turnwise.trainers.on_policy import OnPolicyConfig
from turnwise.trainers.run.openings import harmful_rate, narrow_bounds, openings, slow_sampler

from ..small import looping, run

BILLION = 1_000_000_000


def test_training_on_a_held_out_split_is_warned_about(tmp_path: Path) -> None:
    agent: Any = SimpleNamespace(remarks=lambda tools: ())

    def lines(split: str) -> str:
        config = looping(tmp_path / "run", tmp_path / "model", split=split, device="cpu")
        return "\n".join(openings(config, torch.nn.Linear(1, 1), agent, ()))

    assert "warning: split = test_iid trains on held-out tasks" in lines("test_iid")
    assert "warning: split = dev trains on held-out tasks" in lines("dev")
    assert "split" not in lines("train")


@pytest.mark.parametrize(
    ("changes", "parameters", "warns"),
    [
        ({}, BILLION, True),
        ({}, BILLION // 100, False),
        ({"optimizer": {"lr": 1e-5}}, BILLION, False),
        ({"lora": LoraConfig()}, BILLION, False),
    ],
)
def test_a_learning_rate_for_small_models_is_named_before_it_destroys_a_large_one(
    tmp_path: Path, changes: dict[str, Any], parameters: int, warns: bool
) -> None:
    said = harmful_rate(looping(tmp_path / "run", tmp_path / "model", **changes), parameters)
    assert bool(said) == warns
    assert not warns or ("0.001" in said and "lora.rank" in said)


@pytest.mark.slow
def test_the_default_rate_on_the_full_weights_of_a_large_model_is_refused(
    cloned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after an hour of playing, and not with a warning: recipes have about 1e-6."""
    monkeypatch.setattr(rates, "LARGE", 10_000)
    with pytest.raises(UsageError, match=r"optimizer.lr = 0.001 is for nano models.*about 1e-6.*lora.rank=16"):
        run(looping(tmp_path / "high", cloned / "model", steps=1))
    adapters = {"lora": {"rank": 1, "targets": ["q_proj"]}, "eval": {"episodes": 0}}
    assert run(looping(tmp_path / "adapters", cloned / "model", steps=1, **adapters)).steps == 1
    low = {"optimizer": {"lr": 1e-4}, "eval": {"episodes": 0}}
    assert run(looping(tmp_path / "low", cloned / "model", steps=1, **low)).steps == 1


def test_so_is_that_of_a_critic_of_the_same_size(cloned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = load_model(cloned / "model")
    assert token_values(ValuesConfig(), model, tokenizer)
    monkeypatch.setattr(rates, "LARGE", 1000)
    with pytest.raises(UsageError, match=r"values.lr = 0.001 .*Set about 1e-5"):
        token_values(ValuesConfig(), model, tokenizer)
    assert token_values(ValuesConfig(lr=1e-5), model, tokenizer)


def test_bounds_as_narrow_as_rounding_are_named(tmp_path: Path) -> None:
    """Measured on a random model: with autocast, GSPO's bounds clip 28 % of the tokens before any update."""

    def bounded(optimizer: dict[str, Any], **loss: Any) -> str:
        settings = {"env": "e", "model": "m", "algorithm": {"name": "grpo"}, "optimizer": optimizer, "loss": loss}
        return narrow_bounds(OnPolicyConfig.model_validate(settings))

    sequence = {"ratio_level": "trajectory", "length_normalized": True}
    gspo = {**sequence, "clip_low": 3e-4, "clip_high": 4e-4}
    assert "a bound of 0.0003 clips the rounding of 16 bits" in bounded({"autocast": "bfloat16"}, **gspo)
    assert bounded({}, **gspo) == bounded({"autocast": "bfloat16", "head": "float32"}, **gspo) == ""
    assert bounded({"autocast": "bfloat16"}, **sequence) == bounded({"autocast": "bfloat16"}) == ""
    assert narrow_bounds(looping(tmp_path / "run", tmp_path / "model", optimizer={"autocast": "bfloat16"})) == ""


@pytest.mark.parametrize(("gpu", "device"), [(True, "cuda"), (False, "cpu")])
def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch, gpu: bool, device: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert resolve_device("auto") == device
    assert resolve_device("cuda:1") == "cuda:1"


def test_a_large_model_that_samples_on_a_gpu_without_vllm_is_named(tmp_path: Path) -> None:
    config = looping(tmp_path / "run", tmp_path / "model")
    on_gpu = config.model_copy(update={"device": "cuda"})
    assert "[server.engine]" in slow_sampler(on_gpu, BILLION)
    assert slow_sampler(on_gpu, BILLION // 10) == slow_sampler(config, BILLION) == ""
    served = looping(tmp_path / "run", tmp_path / "model", server={"urls": ["http://x"]})
    assert slow_sampler(served.model_copy(update={"device": "cuda"}), BILLION) == ""
