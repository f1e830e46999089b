"""ArCHer with each kind of encoder: a run learns, resumes bitwise, and leaves a model without a trace of its critic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from turnwise.errors import UsageError
from turnwise.trainers import archer

from .critics.test_transformers_encoder import its_tokenizer, roberta
from .test_archer import config
from .test_resume import same, state


def shared(rank: int = 2) -> dict[str, Any]:
    critic = {"encoder": {"kind": "shared", "adapter": {"rank": rank, "alpha": 4}}, "head": 8}
    return {"critic_model": critic, "lora": {"rank": 2, "targets": ["q_proj", "v_proj"]}}


@pytest.mark.slow
@pytest.mark.shift
def test_actor_and_critic_share_a_model_and_resume_bitwise(tmp_path: Path, cloned: Path) -> None:
    straight = archer.train(config(tmp_path / "straight", cloned / "model", steps=3, **shared()))
    archer.train(config(tmp_path / "parts", cloned / "model", steps=2, **shared()))
    torch.manual_seed(5)
    archer.train(config(tmp_path / "parts", cloned / "model", steps=3, resume=True, **shared()))
    one, other = state(tmp_path / "straight", "archer"), state(tmp_path / "parts", "archer")
    assert one[0] == other[0], "the adapters, to the last bit"
    assert same(one[1], other[1])
    before, after = (load_file(path / "model.safetensors") for path in (cloned / "model", straight.model))
    assert before.keys() == after.keys(), "what is exported is an ordinary model"
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all(name.endswith(("q_proj.weight", "v_proj.weight")) for name in moved), "nothing of the critic is in it"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["causal", pytest.param("copy", marks=pytest.mark.shift)])
def test_a_critic_that_reads_rows_learns_and_resumes_bitwise(tmp_path: Path, cloned: Path, kind: str) -> None:
    critic = {"encoder": {"kind": kind, "hidden": 8, "layers": 1, "heads": 1, "intermediate": 8}, "head": 8}
    agent = {"context": "full", "max_tokens": 4, "show_tools": False}
    settings: dict[str, Any] = {"critic_model": critic, "agent": agent}
    straight = archer.train(config(tmp_path / "straight", cloned / "model", steps=3, **settings))
    archer.train(config(tmp_path / "parts", cloned / "model", steps=2, **settings))
    torch.manual_seed(5)
    archer.train(config(tmp_path / "parts", cloned / "model", steps=3, resume=True, **settings))
    one, other = state(tmp_path / "straight", "archer"), state(tmp_path / "parts", "archer")
    assert one[0] == other[0]
    assert same(one[1], other[1])
    assert straight.metrics["updates"] == 2


def test_a_model_that_learns_wholly_cannot_be_shared(tmp_path: Path, cloned: Path) -> None:
    settings = shared() | {"lora": None}
    with pytest.raises(UsageError, match="this policy has none: train it with LoRA"):
        archer.train(config(tmp_path / "run", cloned / "model", **settings))


@pytest.mark.slow
def test_a_critic_of_another_family_reads_along(tmp_path: Path, cloned: Path) -> None:
    roberta().save_pretrained(tmp_path / "roberta")
    its_tokenizer().save_pretrained(tmp_path / "roberta")
    encoder: dict[str, Any] = {"kind": "transformers", "pretrained": {"path": str(tmp_path / "roberta")}}
    settings = {"critic_model": {"encoder": encoder, "head": 8}, "steps": 2}
    with pytest.raises(UsageError, match="its encoder holds 12"):
        archer.train(config(tmp_path / "strict", cloned / "model", **settings))
    encoder["pretrained"]["too_long"] = "drop_oldest"
    result = archer.train(config(tmp_path / "run", cloned / "model", **settings))
    assert result.metrics["critic/dropped_tokens"] > 0
    assert result.metrics["updates"] >= 1
