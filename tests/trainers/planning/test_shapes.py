"""Shapes of models have the published numbers of weights, and come from a folder without any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from turnwise.errors import UsageError
from turnwise.trainers.learning.lora import LoraConfig, attach
from turnwise.trainers.planning.shapes import KNOWN, shape_from, shape_of


def whole(config: Any) -> Any:
    made: Any = AutoModelForCausalLM
    return made.from_config(config)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-32b", 32_762_123_264),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.1-8b", 8_030_261_248),
    ],
)
def test_known_shapes_have_the_published_number_of_weights(name: str, weights: int) -> None:
    assert KNOWN[name].weights == weights


@pytest.mark.parametrize("kind", [Qwen2Config, Qwen3Config, LlamaConfig])
@pytest.mark.parametrize("tied", [False, True])
def test_a_folder_without_weights_has_a_shape(
    kind: type[Qwen2Config | Qwen3Config | LlamaConfig], tied: bool, tmp_path: Path
) -> None:
    config = kind(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
        vocab_size=100, tie_word_embeddings=tied, max_position_embeddings=77,
        bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    config.save_pretrained(tmp_path)
    shape = shape_of(str(tmp_path))
    with torch.device("meta"):
        model = whole(AutoConfig.from_pretrained(tmp_path))
    assert shape.weights == sum(each.numel() for each in model.parameters())
    assert (shape.positions, shape.cached()) == (77, 2 * 3 * shape.keys * 2)


def test_names_are_known_with_their_owner_and_ending() -> None:
    assert shape_of("models/qwen3-0.6b") is KNOWN["qwen3-0.6b"]
    assert shape_of("Qwen/Qwen2.5-0.5B-Instruct") is KNOWN["qwen2.5-0.5b"]
    with pytest.raises(UsageError, match=r"the shape of 'models/mine' is not known.*model=FOLDER") as said:
        shape_of("models/mine")
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read"),
        (json.dumps({"model_type": "qwen3_moe"}), "model_type = 'qwen3_moe'"),
        (json.dumps({"model_type": "qwen3", "hidden_size": 3}), "num_attention_heads"),
        (json.dumps({"model_type": "qwen3", "hidden_size": 3, "num_attention_heads": "x"}), "does not describe"),
        (json.dumps({"model_type": "qwen3", "hidden_size": 0}), "hidden_size = 0, and must be at least 1"),
        ("[1]", "not a table of settings"),
    ],
)
def test_another_architecture_is_refused_in_one_line(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UsageError, match=said):
        shape_of(str(tmp_path))


def test_adapters_are_counted_as_peft_makes_them() -> None:
    shape = shape_from(
        {
            "model_type": "qwen3", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8,
            "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 50, "tie_word_embeddings": True,
        },
        "here",
    )  # fmt: skip
    config = Qwen3Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, head_dim=8, num_key_value_heads=2,
        intermediate_size=64, vocab_size=50, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = attach(whole(config), LoraConfig(rank=3))
    assert shape.adapters(3) == sum(each.numel() for each in model.parameters() if each.requires_grad)
