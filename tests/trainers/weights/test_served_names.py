from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from turnwise.errors import UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.learning.lora import LoraConfig, adapted, attach, merged
from turnwise.trainers.weights.served_names import served_names


def mixture() -> Any:
    config = Qwen3MoeConfig(  # type: ignore[call-arg]
        vocab_size=64,
        hidden_size=16,
        intermediate_size=16,
        moe_intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
    )
    return Qwen3MoeForCausalLM(config).eval()  # type: ignore[no-untyped-call]


def test_a_mixture_of_experts_is_sent_under_the_names_of_its_folder(tmp_path: Path) -> None:
    model = mixture()
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert "model.layers.0.mlp.experts.3.gate_proj.weight" in saved
    assert "model.layers.0.mlp.experts.gate_up_proj" in model.state_dict(), "transformers fuses experts"
    for each in (model, Qwen3MoeForCausalLM.from_pretrained(tmp_path)):
        sent = served_names(each, each.state_dict())
        assert sent.keys() == saved.keys()
        assert all(torch.equal(value, saved[name]) for name, value in sent.items())


def test_a_dense_model_keeps_its_names() -> None:
    model = build_model(NanoConfig(tokenizer="byte", size="0.1M"), build_tokenizer("byte"))
    state = model.state_dict()
    sent = served_names(model, state)
    assert sent.keys() == state.keys()
    assert all(sent[name] is value for name, value in state.items())


def test_experts_take_no_adapters_and_the_attention_beside_them_does() -> None:
    model = mixture()
    with pytest.raises(UsageError, match=r"experts are one tensor per layer, and take no adapters: leave gate_proj"):
        attach(model, LoraConfig(targets=["q_proj", "gate_proj"]))
    assert not adapted(model), "nothing was changed"
    attach(model, LoraConfig(rank=2))
    trained = {name for name, each in model.named_parameters() if each.requires_grad}
    assert trained
    assert all(".self_attn." in name for name in trained), "neither experts nor routers"
    assert merged(model, model.state_dict()).keys() == mixture().state_dict().keys()
