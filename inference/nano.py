"""Nano models: language models built from scratch, small enough to train on a CPU, without downloads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import pydantic
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from ..config import Config
from ..errors import ModelError

TokenizerKind = Literal["word", "byte", "bpe", "bpe-digits"]
Size = Literal["0.1M", "0.5M", "2M", "8M", "30M"]

# hidden, layers, heads, head_dim, intermediate: parameters outside the embedding, rounded, name the size.
SHAPES: dict[Size, tuple[int, int, int, int, int]] = {
    "0.1M": (64, 2, 2, 32, 192),
    "0.5M": (128, 3, 4, 32, 256),
    "2M": (192, 4, 6, 32, 512),
    "8M": (320, 6, 5, 64, 960),
    "30M": (512, 8, 8, 64, 1536),
}
PAD, STOP, UNKNOWN = "<pad>", "<end>", "<unk>"
ROLES = {"system": "<sys>", "user": "<user>", "assistant": "<ai>", "tool": "<tool>"}
MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<action>", "</action>", "<summary>", "</summary>")

# One token before each message, and one after each message of the agent: the shortest template that marks every turn.
CHAT_TEMPLATE = (
    "{%- if tools %}<sys>{% for tool in tools %}{{ (tool.function if tool.function else tool) | tojson }}\n"
    "{% endfor %}{% endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'assistant' -%}<ai>{{ message.content }}<end>"
    "{%- elif message.role == 'system' -%}<sys>{{ message.content }}"
    "{%- elif message.role == 'tool' -%}<tool>{{ message.content }}"
    "{%- else -%}<user>{{ message.content }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<ai>{%- endif -%}"
)


class NanoConfig(Config):
    """Shape and tokenizer of a model built from scratch."""

    tokenizer: TokenizerKind = "word"
    """Tokenizer: words and punctuation, bytes, or byte-pair merges learned from the texts, which ``bpe-digits`` never
    learns across digits."""
    size: Size = "0.5M"
    """Parameters outside the embedding: 0.1M, 0.5M, 2M, 8M or 30M."""
    hidden: int | None = pydantic.Field(default=None, ge=1)
    """Width of the residual stream (default for this and the four fields below: from ``size``)."""
    layers: int | None = pydantic.Field(default=None, ge=1)
    """Number of transformer blocks."""
    heads: int | None = pydantic.Field(default=None, ge=1)
    """Number of attention heads, and of key-value heads."""
    head_dim: int | None = pydantic.Field(default=None, ge=2, multiple_of=2)
    """Width of one head; must be even, because positions rotate pairs of numbers."""
    intermediate: int | None = pydantic.Field(default=None, ge=1)
    """Width inside the MLP."""
    vocab_size: int = 512
    """Maximum number of tokens that a "bpe" tokenizer learns or a "word" tokenizer keeps (most frequent first)."""
    context_length: int = pydantic.Field(default=1024, ge=2)
    """Maximum tokens of prompt plus action."""
    initializer_range: float = pydantic.Field(default=0.05, ge=0)
    """Standard deviation of the initial weights; 0.02, the usual one, is too small at these widths."""
    tie_embeddings: bool = False
    """Share input and output embeddings. Weight transfer to some servers silently drops a shared output embedding."""

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Return hidden, layers, heads, head_dim and intermediate, with the overrides applied."""
        own = (self.hidden, self.layers, self.heads, self.head_dim, self.intermediate)
        hidden, layers, heads, head_dim, intermediate = (
            preset if value is None else value for value, preset in zip(own, SHAPES[self.size], strict=True)
        )
        return hidden, layers, heads, head_dim, intermediate


def build_tokenizer(
    kind: TokenizerKind, texts: Iterable[str] = (), *, vocab_size: int = 512
) -> PreTrainedTokenizerFast:
    """Build a tokenizer with a compact chat template from texts alone.

    Args:
        kind: "word" splits on words and punctuation and round-trips text of single spaces and newlines within
            its vocabulary; "byte", "bpe" and "bpe-digits" (each digit is a token) round-trip everything.
        texts: texts for the vocabulary; "byte" needs none.
        vocab_size: number of ordinary tokens to keep ("word": the most frequent; "bpe": bytes and merges).

    Raises:
        ModelError: a kind other than "byte" without texts, or an unknown kind.
    """
    corpus = list(texts)
    if kind in ("word", "bpe", "bpe-digits") and not any(corpus):
        raise ModelError(f"a {kind!r} tokenizer is built from texts, but there are none; pass some observations")
    match kind:
        case "word":
            core = _word_level(corpus, vocab_size)
        case "byte":
            core = _byte_level({}, [])
        case "bpe":
            core = _byte_level(*_learn_merges(corpus, vocab_size))
        case "bpe-digits":
            core = _byte_level(*_learn_merges(corpus, vocab_size, digits=True), digits=True)
        case _:
            raise ModelError(f"tokenizer kind {kind!r} is unknown; choose word, byte, bpe or bpe-digits")
    special = [PAD, STOP, *ROLES.values()]
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    core.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKS])
    fast: Any = PreTrainedTokenizerFast
    made: PreTrainedTokenizerFast = fast(
        tokenizer_object=core,
        chat_template=CHAT_TEMPLATE,
        eos_token=STOP,
        pad_token=PAD,
        unk_token=UNKNOWN if kind == "word" else None,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    return made


def build_model(config: NanoConfig, tokenizer: Any, seed: int = 0) -> Qwen3ForCausalLM:
    """Build a randomly initialized Qwen3 of the configured shape, in evaluation mode.

    Args:
        config: shape and initialization.
        tokenizer: tokenizer that determines the vocabulary, pad and stop ids.
        seed: seed of the weights; the global generator is unchanged.
    """
    hidden, layers, heads, head_dim, intermediate = config.shape
    architecture = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=head_dim,
        intermediate_size=intermediate,
        max_position_embeddings=config.context_length,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_embeddings,
        attention_dropout=0.0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(architecture)
    model.train(False)
    return model


def _word_level(texts: list[str], vocab_size: int) -> Tokenizer:
    """Attach the preceding space to words (as "▁"), so that it is one token at the start of an action and inside."""
    core = Tokenizer(models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", "isolated"),
            pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=False),
            pre_tokenizers.Split(Regex(r"▁?\w+|▁?[^\w\s▁]|▁?\n|▁"), "isolated"),
        ]
    )
    counts: Counter[str] = Counter()
    for text in texts:
        for piece in _segments(text):
            found = [word for word, _ in core.pre_tokenizer.pre_tokenize_str(piece)]
            # The agent may need a word without the bracket that precedes it in the texts: count it with a space too.
            counts.update([*found, *("▁" + word for word in found if word[0] != "▁" and word[0].isalnum())])
    # By frequency, then alphabetically: the vocabulary is a function of the texts, not of their order.
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:vocab_size]
    core.model = models.WordLevel({word: i for i, word in enumerate([UNKNOWN, *sorted(kept)])}, unk_token=UNKNOWN)
    core.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.Fuse(),
            decoders.Replace(Regex(r" ?\n ?"), "\n"),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return core


def _segments(text: str) -> list[str]:
    """Return the segments of text between control tokens, as the tokenizer will see them."""
    for token in (*ROLES.values(), *MARKS, STOP, PAD):
        text = text.replace(token, "\0")
    return [segment for segment in text.split("\0") if segment]


def _learn_merges(
    texts: list[str], vocab_size: int, *, digits: bool = False
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    core = _byte_level({}, [], digits=digits)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    learned = json.loads(core.to_str())["model"]
    return learned["vocab"], [tuple(merge) for merge in learned["merges"]]


def _byte_level(vocab: dict[str, int], merges: list[tuple[str, str]], *, digits: bool = False) -> Tokenizer:
    vocab = vocab or {byte: i for i, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if digits:
        apart = pre_tokenizers.Digits(individual_digits=True)
        core.pre_tokenizer = pre_tokenizers.Sequence([apart, core.pre_tokenizer])
    core.decoder = decoders.ByteLevel()
    return core
