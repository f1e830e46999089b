"""Nano models and their tokenizers."""

from __future__ import annotations

import random
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.agents.chat import ChatAgent
from turnwise.agents.template import ChatTemplate
from turnwise.config import load_config
from turnwise.envs.messages import message
from turnwise.errors import ConfigError, ModelError
from turnwise.inference.nano import MARKS, ROLES, SHAPES, NanoConfig, Size, TokenizerKind, build_model, build_tokenizer

from ..agents.fakes import Parrot
from ..agents.test_chat import LOOK

TEXTS = ["You see a wall.\nGo left, right (3.5 m) or back!", "left right\n\nback", "a  b", "don't — naïve 🙂"]
KINDS: tuple[TokenizerKind, ...] = get_args(TokenizerKind)
WORD = build_tokenizer("word", TEXTS)
BYTE = build_tokenizer("byte")
BPE = build_tokenizer("bpe", TEXTS, vocab_size=280)
DIGITS = build_tokenizer("bpe-digits", [*TEXTS, "1234 1234 1234 1234"], vocab_size=300)
words = st.lists(st.sampled_from(["You", "wall", "left", "right", "3", "m"]), min_size=1, max_size=8)


def there_and_back(tokenizer: Any, text: str) -> str:
    ids = tokenizer.encode(text, add_special_tokens=False)
    return str(tokenizer.decode(ids, skip_special_tokens=False))


@given(st.text())
def test_byte_tokenizers_bring_every_text_back(text: str) -> None:
    for tokenizer in (BYTE, BPE, DIGITS):
        assert there_and_back(tokenizer, text) == text


@pytest.mark.parametrize("text", TEXTS)
def test_words_bring_their_own_texts_back(text: str) -> None:
    assert there_and_back(WORD, text) == text


@given(st.integers(min_value=0))
def test_digits_can_stay_apart(number: int) -> None:
    assert DIGITS.tokenize(str(number)) == list(str(number))
    assert DIGITS.unk_token is None


@pytest.mark.slow
@given(lines=st.lists(words, min_size=1, max_size=4))
def test_words_bring_back_any_lines_of_known_words(lines: list[list[str]]) -> None:
    text = "\n".join(" ".join(line) for line in lines)
    assert there_and_back(WORD, text) == text


def test_a_word_is_one_token_wherever_it_stands() -> None:
    """An action of one word is one token, and the same one as inside a sentence."""
    (left,) = WORD.encode("left", add_special_tokens=False)
    assert left in WORD.encode("Go left, right", add_special_tokens=False)
    assert left in WORD.encode("<ai>left<end>", add_special_tokens=False)
    assert there_and_back(WORD, "left zebra") == "left<unk>"


def test_the_vocabulary_is_a_function_of_the_texts_not_of_their_order() -> None:
    shuffled = random.Random(0).sample(TEXTS, len(TEXTS))
    assert build_tokenizer("word", shuffled).get_vocab() == WORD.get_vocab()
    small = build_tokenizer("word", ["a a a b b c"], vocab_size=2)
    assert small.encode("a b c", add_special_tokens=False)[:2] == small.convert_tokens_to_ids(["▁a", "▁b"])
    assert small.unk_token_id in small.encode("c", add_special_tokens=False)


def test_control_tokens_in_texts_make_no_words() -> None:
    made = build_tokenizer("word", ["<user>left<ai><action>go</action><end>"])
    words = set(made.get_vocab()) - {*ROLES.values(), *MARKS, "<pad>", "<end>", "<unk>"}
    assert words == {"▁left", "▁go"}


@pytest.mark.parametrize("tokenizer", [WORD, BYTE, BPE, DIGITS], ids=KINDS)
def test_the_chat_template_costs_a_token_a_message_and_one_to_stop(tokenizer: Any) -> None:
    template = ChatTemplate(tokenizer)
    assert template.stop_ids == (tokenizer.eos_token_id,)
    rendering = template.bind()
    conversation = [message("system", "a"), message("user", "a"), message("tool", "a")]
    content = len(tokenizer.encode("a", add_special_tokens=False))
    _, ids = rendering.first(tuple(conversation))
    assert len(ids) == 3 * (1 + content) + 1, "one token before each message, one where the agent speaks"
    suffix = rendering.suffix((message("user", "a"),))
    assert len(suffix.closed) == 1 + content + 1
    assert suffix.open == (tokenizer.eos_token_id, *suffix.closed), "an unfinished action is closed by the stop token"
    assert rendering.appends(system=True)
    assert rendering.appends(system=False)


def test_tools_are_shown() -> None:
    agent = ChatAgent(Parrot([]), BYTE)
    assert agent.template.bind([LOOK.to_json()]).shows_tools


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_vocabulary_needs_texts(kind: TokenizerKind) -> None:
    with pytest.raises(ModelError, match="built from texts"):
        build_tokenizer(kind, [""])


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ModelError, match="word, byte, bpe or bpe-digits"):
        build_tokenizer("sentence", ["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize("size", list(SHAPES))
def test_a_size_is_the_number_of_parameters_outside_the_embeddings(size: Size) -> None:
    with torch.device("meta"):
        model = build_model(NanoConfig(size=size), BYTE)
    inside = sum(p.numel() for name, p in model.named_parameters() if "embed" not in name and "lm_head" not in name)
    assert inside == pytest.approx(float(size[:-1]) * 1e6, rel=0.25)


def test_weights_are_a_function_of_the_seed_and_nothing_else() -> None:
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    one, other, third = (build_model(NanoConfig(size="0.1M"), BYTE, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator must be left as it was"
    same, different = (
        all(torch.equal(a, b) for a, b in zip(one.parameters(), model.parameters(), strict=True))
        for model in (other, third)
    )
    assert same
    assert not different
    assert not one.training
    spread = float(one.model.layers[0].mlp.up_proj.weight.detach().std())
    assert spread == pytest.approx(0.05, rel=0.05), "initial weights have the configured spread"


def test_the_configuration_reads_from_words_and_is_documented() -> None:
    config = load_config(NanoConfig, overrides=["size=2M", "layers=3", "tokenizer=byte"])
    assert config.shape == (192, 3, 6, 32, 512)
    assert all(field.description for field in NanoConfig.model_fields.values())
    model = build_model(load_config(NanoConfig, overrides=["size=0.1M", "context_length=77"]), BYTE)
    assert model.config.max_position_embeddings == 77
    with pytest.raises(ConfigError, match="size"):
        load_config(NanoConfig, overrides=["size=7B"])
