from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from turnwise.errors import CheckpointError, UsageError
from turnwise.inference.models import load_model, save_model
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.learning.learner import Learner, OptimizerConfig
from turnwise.trainers.learning.logprobs import score
from turnwise.trainers.learning.lora import LoraConfig, adapted, attach
from turnwise.trainers.learning.normalizers import normalizer
from turnwise.trainers.learning.rows import Rows, pack
from turnwise.trainers.run.model_files import ModelFiles

from ..fakes import Said, conversation

TOKENIZER = build_tokenizer("byte")
TINY = NanoConfig(tokenizer="byte", size="0.1M", layers=2, hidden=32, heads=2, head_dim=16, intermediate=48)
RANK_4 = LoraConfig(rank=4, alpha=8)


def rows() -> Rows:
    said = [conversation([Said((1, 2), (3, 4)), Said((5,), (6 + i,))], name=str(i)) for i in range(4)]
    packed = pack(said).with_advantage(torch.tensor([1.0, -1.0, 0.5, -0.5]))
    return packed.with_weight(normalizer(packed, "traj_mean"))


def logp(model: Any) -> Tensor:
    with torch.no_grad():
        return score(model, rows()).logp


@pytest.fixture
def base(tmp_path: Path) -> Path:
    save_model(build_model(TINY, TOKENIZER), TOKENIZER, tmp_path / "base")
    return tmp_path / "base"


def trained(model: Any, updates: int = 3) -> Learner:
    learner = Learner(model, OptimizerConfig(lr=3e-2))
    for _ in range(updates):
        learner.clone(rows())
    return learner


def test_adapters_change_nothing_at_first_and_alone_get_a_gradient() -> None:
    plain, model = build_model(TINY, TOKENIZER), attach(build_model(TINY, TOKENIZER), RANK_4)
    assert torch.equal(logp(plain), logp(model))
    assert type(model) is type(plain)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    learner = Learner(model, OptimizerConfig(lr=3e-2))
    gradients: dict[str, bool] = {}
    learner._optimizer.register_step_pre_hook(
        lambda *_: gradients.update({name: p.grad is not None for name, p in model.named_parameters()})
    )
    metrics = learner.clone(rows()).metrics
    assert gradients == {name: "lora_" in name for name in before}
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) or "lora_" in name
    assert any("lora_B" in name and bool(p.any()) for name, p in model.named_parameters()), "it did learn"
    linear = [m for m in plain.modules() if isinstance(m, torch.nn.Linear) and m is not plain.lm_head]
    assert metrics["trainable"] == sum(4 * (m.in_features + m.out_features) for m in linear)


def test_the_first_weights_follow_from_the_seed_and_no_generator_moves() -> None:
    state = torch.get_rng_state()
    one, same, other = (attach(build_model(TINY, TOKENIZER), RANK_4, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    a = "model.layers.0.self_attn.q_proj.lora_A.default.weight"
    assert torch.equal(one.state_dict()[a], same.state_dict()[a])
    assert not torch.equal(one.state_dict()[a], other.state_dict()[a])


def test_named_targets_alone_get_adapters() -> None:
    model = attach(build_model(TINY, TOKENIZER), LoraConfig(targets=["q_proj", "v_proj"]))
    assert {name.split(".")[4] for name, p in model.named_parameters() if p.requires_grad} == {"q_proj", "v_proj"}
    with pytest.raises(UsageError, match=r"lora.targets = \['qkv'\].*k_proj"):
        attach(build_model(TINY, TOKENIZER), LoraConfig(targets=["qkv"]))


def test_dropout_is_refused() -> None:
    with pytest.raises(ValueError, match="other tokens than the policy sampled"):
        LoraConfig(dropout=0.1)


def test_adapters_are_32_bit_over_a_16_bit_model() -> None:
    model = attach(build_model(TINY, TOKENIZER).bfloat16(), RANK_4)
    trained(model, 1)
    kinds = {("lora_" in name, parameter.dtype) for name, parameter in model.named_parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # of peft, by transformers
def test_what_is_exported_is_merged_and_peft_reads_the_adapter(base: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    files = ModelFiles("float32", lora=RANK_4)
    model, tokenizer = files.load(base)
    trained(model)
    files.export(model, tokenizer, files.weights(model), tmp_path / "model")
    merged, _ = load_model(tmp_path / "model")
    assert not adapted(merged)
    assert not torch.equal(logp(merged), logp(load_model(base)[0]))
    assert torch.allclose(logp(merged), logp(model), atol=1e-5)
    outside = peft.PeftModel.from_pretrained(load_model(base)[0], tmp_path / "model" / "adapter").eval()
    assert torch.allclose(logp(outside.base_model.model), logp(model), atol=1e-6)
    assert adapted(model), "the model that is trained goes on as it was"


def test_tied_embeddings_stay_tied(tmp_path: Path) -> None:
    tied = TINY.model_copy(update={"tie_embeddings": True})
    save_model(build_model(tied, TOKENIZER), TOKENIZER, tmp_path / "base")
    files = ModelFiles("float32", lora=RANK_4)
    model, tokenizer = files.load(tmp_path / "base")
    trained(model)
    files.export(model, tokenizer, files.weights(model), tmp_path / "model")
    merged, _ = load_model(tmp_path / "model")
    assert torch.allclose(logp(merged), logp(model), atol=1e-5)
    assert merged.lm_head.weight is merged.model.embed_tokens.weight


@pytest.mark.slow
def test_saved_and_loaded_it_learns_on_bitwise(base: Path, tmp_path: Path) -> None:
    files = ModelFiles("float32", lora=RANK_4)
    straight, tokenizer = files.load(base)
    trained(straight, 5)
    half, _ = files.load(base)
    state = trained(half, 2).state_dict()
    files.write_checkpoint(half, tokenizer, files.weights(half), tmp_path / "checkpoint")
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "base.json",
    ], "the frozen part is not written again"
    again, _ = ModelFiles("float32", lora=RANK_4, seed=9).load(tmp_path / "checkpoint")
    learner = Learner(again, OptimizerConfig(lr=3e-2))
    learner.load_state_dict(state)
    for _ in range(3):
        learner.clone(rows())
    for name, weight in straight.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name]), name


def test_adapters_go_with_the_weights_they_were_trained_on(base: Path, tmp_path: Path) -> None:
    files = ModelFiles("float32", lora=RANK_4)
    model, tokenizer = files.load(base)
    files.write_checkpoint(model, tokenizer, files.weights(model), tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="rank and targets"):
        ModelFiles("float32", lora=LoraConfig(rank=2)).load(tmp_path / "checkpoint")
    save_model(build_model(TINY, TOKENIZER, seed=1), TOKENIZER, base)
    with pytest.raises(CheckpointError, match="have changed"):
        files.load(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "adapter_model.safetensors").write_bytes(b"{")
    base_json = tmp_path / "checkpoint" / "base.json"
    base_json.write_text(json.dumps(json.loads(base_json.read_text()) | {"digest": ""}))
    with pytest.raises(CheckpointError):
        files.load(tmp_path / "checkpoint")
