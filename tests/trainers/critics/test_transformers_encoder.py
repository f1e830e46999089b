"""A transformers encoder that reads the policy's ids as text of its own spelling."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from turnwise.errors import ModelError, UsageError
from turnwise.inference.nano import NanoConfig, build_model, build_tokenizer
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.critics.encoder import EncoderConfig, PretrainedConfig
from turnwise.trainers.critics.encoders import encoder_named
from turnwise.trainers.critics.transformers_encoder import TransformersEncoder
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic

from .turns import step

LETTERS = "abcdefgh <>/?"
SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "initializer_range": 0.3,
}
ROOM = 12


def its_tokenizer() -> Any:
    """Letter by letter, ``<s>`` in front and ``</s>`` behind: nothing like the policy's."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = {token: number for number, token in enumerate([*special, *LETTERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=False)
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=core, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def roberta(seed: int = 0) -> Any:
    config = RobertaConfig(vocab_size=4 + len(LETTERS), max_position_embeddings=ROOM + 2, pad_token_id=1, **SHAPE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RobertaModel(config)


@pytest.fixture(scope="module")
def policys() -> Any:
    return build_tokenizer("byte")


def encoder(policys: Any, **settings: Any) -> TransformersEncoder:
    return TransformersEncoder(roberta(), its_tokenizer(), policys, **settings)


def ids(policys: Any, text: str) -> tuple[int, ...]:
    return tuple(policys.encode(text))


def test_it_reads_the_text_of_the_policys_ids_in_its_own_spelling(policys: Any) -> None:
    made = encoder(policys)
    own = its_tokenizer()("abba", return_tensors="pt")
    assert own["input_ids"].tolist() == [[0, 4, 5, 5, 4, 2]], "a spelling of its own"
    wanted: Tensor = made.body(own["input_ids"]).pooler_output
    assert torch.allclose(made([ids(policys, "abba")]), wanted, atol=1e-6)
    assert made.width == 16


def test_how_the_policy_spelt_it_does_not_matter_and_what_it_said_does(policys: Any) -> None:
    made = encoder(policys)
    words = build_tokenizer("word", ["abba", "ab", "ba"])
    other = TransformersEncoder(made.body, its_tokenizer(), words)
    assert torch.allclose(made([ids(policys, "abba")]), other([ids(words, "abba")]), atol=1e-6)
    assert not torch.allclose(made([ids(policys, "abba")]), made([ids(policys, "abab")]), atol=1e-3)
    stopped = (*ids(policys, "ab"), policys.eos_token_id)
    assert not torch.allclose(made([stopped]), made([ids(policys, "ab")]), atol=1e-3), "special tokens are read too"


def test_trap_26_padding_changes_nothing(policys: Any) -> None:
    made = encoder(policys)
    alone = made([ids(policys, "ab")])
    assert torch.allclose(alone, made([ids(policys, "ab"), ids(policys, "ha" * 5)])[:1], atol=1e-6)


def test_trap_7_what_is_too_long_is_an_error_or_is_counted(policys: Any) -> None:
    fits, longer = ids(policys, "abcdefghab"), ids(policys, "cc" + "abcdefghab")
    made = encoder(policys)
    assert made([fits]).shape == (1, 16), "ten letters and two special tokens"
    with pytest.raises(UsageError, match=r"read 14 tokens, and its encoder holds 12.*drop_oldest"):
        made([fits, longer])
    cutting = encoder(policys, too_long="drop_oldest")
    assert torch.allclose(cutting([longer]), made([fits]), atol=1e-6), "the oldest are not read"
    cutting([longer, fits])
    assert cutting.metrics() == {"dropped_tokens": 4.0}
    assert cutting.metrics() == {"dropped_tokens": 0.0}


def test_what_was_dropped_is_among_the_critics_metrics(policys: Any) -> None:
    critic = UtteranceCritic(encoder(policys, too_long="drop_oldest"), CriticConfig(head=8))
    batch = [step(ids(policys, "abcdefgh" * 2), ids(policys, "a"), 1.0, returned=1.0)]
    assert critic.update(batch, ArcherRule(kind="mc"))["critic/dropped_tokens"] == 16 + 2 - ROOM


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_other_families_count_their_places_otherwise(policys: Any, kind: str) -> None:
    """BERT has as many places as it says; DistilBERT pools nothing."""
    size: dict[str, Any] = {"vocab_size": 4 + len(LETTERS), "max_position_embeddings": ROOM, "pad_token_id": 1}
    if kind == "bert":
        model: Any = BertModel(BertConfig(**size, **SHAPE))
    else:
        model = DistilBertModel(DistilBertConfig(**size, dim=16, n_layers=1, n_heads=2, hidden_dim=32))
    made = TransformersEncoder(model, its_tokenizer(), policys)
    assert made.context == ROOM
    assert made([ids(policys, "abcdefghab")]).shape == (1, 16)
    with pytest.raises(UsageError, match="holds 12"):
        made([ids(policys, "abcdefghabc")])


def test_it_is_loaded_from_a_folder(policys: Any, tmp_path: Path) -> None:
    model, tokenizer = roberta(), its_tokenizer()
    model.save_pretrained(tmp_path / "roberta")
    tokenizer.save_pretrained(tmp_path / "roberta")
    policy = build_model(NanoConfig(size="0.1M", layers=1, hidden=16), policys)
    config = EncoderConfig(kind="transformers", pretrained=PretrainedConfig(path=str(tmp_path / "roberta")))
    loaded = encoder_named(config, policy, policys)
    assert isinstance(loaded, TransformersEncoder)
    read = [ids(policys, "abba"), ids(policys, "h")]
    assert torch.allclose(loaded(read), encoder(policys)(read), atol=1e-6)


def test_one_stored_in_16_bits_learns_in_32(policys: Any, tmp_path: Path) -> None:
    roberta().to(torch.bfloat16).save_pretrained(tmp_path / "roberta")
    its_tokenizer().save_pretrained(tmp_path / "roberta")
    loaded = TransformersEncoder.load(PretrainedConfig(path=str(tmp_path / "roberta")), policys)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}


def test_a_folder_that_holds_none_is_named(policys: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"critic encoder '' is not a folder: set .*pretrained\.path"):
        TransformersEncoder.load(PretrainedConfig(), policys)
    with pytest.raises(ModelError, match="holds no encoder that transformers can load") as caught:
        TransformersEncoder.load(PretrainedConfig(path=str(tmp_path)), policys)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_critic_learns_through_it_and_its_slow_copy_follows(policys: Any) -> None:
    critic = UtteranceCritic(encoder(policys), CriticConfig.model_validate({"head": 8, "optimizer": {"lr": 0.01}}))
    slow, online = critic.slow.encoder, critic.online.encoder
    assert isinstance(slow, TransformersEncoder)
    assert not any(parameter.requires_grad for parameter in slow.parameters())
    before = [parameter.clone() for parameter in slow.parameters()]
    states, actions = [ids(policys, text) for text in ("ab", "cd")], [ids(policys, text) for text in ("e", "f")]
    batch = [step(s, a, returned=r) for s, a, r in zip(states, actions, (1.0, -1.0), strict=True)]
    critic.update(batch, ArcherRule(kind="mc"))
    for was, now, target in zip(before, slow.parameters(), online.parameters(), strict=True):
        assert torch.equal(now, torch.lerp(was, target, critic.config.tau))
    for _ in range(60):
        critic.update(batch, ArcherRule(kind="mc"))
    assert critic.q(states, actions).mean(0).tolist() == pytest.approx([1.0, -1.0], abs=0.15)


def test_frozen_it_stays_as_it_was(policys: Any) -> None:
    critic = UtteranceCritic(encoder(policys, train=False), CriticConfig(head=8))
    before = copy.deepcopy(critic.online.encoder.state_dict())
    critic.update([step(ids(policys, "ab"), ids(policys, "c"), returned=1.0)], ArcherRule(kind="mc"))
    assert all(torch.equal(before[name], value) for name, value in critic.online.encoder.state_dict().items())
