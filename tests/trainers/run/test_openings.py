"""A run's messages before its first step, and its device unless a user names one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from turnwise.inference.models import resolve_device
from turnwise.trainers.learning.lora import LoraConfig
from turnwise.trainers.run.openings import harmful_rate

from ..small import looping

BILLION = 1_000_000_000


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


@pytest.mark.parametrize(("gpu", "device"), [(True, "cuda"), (False, "cpu")])
def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch, gpu: bool, device: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert resolve_device("auto") == device
    assert resolve_device("cuda:1") == "cuda:1"
