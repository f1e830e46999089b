"""Shapes of language models, from a folder's ``config.json`` or a table of published ones; no weights are needed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The shape of a decoder with grouped attention and a gated MLP, as Qwen, Llama and Mistral have it.

    Args:
        layers: number of blocks.
        hidden: width of the residual stream.
        heads: attention heads.
        kv_heads: heads of keys and values.
        head_dim: width of a head.
        intermediate: width inside the MLP.
        vocabulary: number of ids.
        tied: whether the output layer is the embedding.
        head_norms: whether queries and keys are normalized, as in Qwen3.
        biased: whether queries, keys and values have biases, as in Qwen2.
        positions: context length.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool
    head_norms: bool = False
    biased: bool = False
    positions: int = 32_768

    @property
    def queries(self) -> int:
        """Width of all queries."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of all keys, and of all values."""
        return self.kv_heads * self.head_dim

    @property
    def block_matrices(self) -> int:
        """Weights of the linear layers of a block."""
        return self.hidden * (2 * self.queries + 2 * self.keys + 3 * self.intermediate)

    @property
    def block(self) -> int:
        """Weights of a block."""
        norms = 2 * self.hidden + (2 * self.head_dim if self.head_norms else 0)
        return self.block_matrices + norms + (self.queries + 2 * self.keys if self.biased else 0)

    @property
    def embedding(self) -> int:
        """Weights of the embedding, and of the output layer."""
        return self.vocabulary * self.hidden

    @property
    def backbone(self) -> int:
        """Weights without an output layer of their own."""
        return self.layers * self.block + self.embedding + self.hidden

    @property
    def weights(self) -> int:
        """All weights."""
        return self.backbone + (0 if self.tied else self.embedding)

    def adapters(self, rank: int) -> int:
        """Weights of adapters on every linear layer of the blocks."""
        ends = [(self.hidden, self.queries), (self.queries, self.hidden), (self.intermediate, self.hidden)]
        ends += 2 * [(self.hidden, self.keys)] + 2 * [(self.hidden, self.intermediate)]
        return self.layers * rank * sum(into + out for into, out in ends)

    def cached(self, width: int = 2) -> int:
        """Bytes of keys and values per token, in numbers of ``width`` bytes."""
        return 2 * self.layers * self.keys * width


def _qwen3(layers: int, hidden: int, heads: int, intermediate: int, *, tied: bool) -> ModelShape:
    return ModelShape(layers, hidden, heads, 8, 128, intermediate, 151_936, tied, head_norms=True, positions=40_960)


def _qwen2(layers: int, hidden: int, heads: int, kv_heads: int, intermediate: int, *, tied: bool) -> ModelShape:
    vocabulary = 151_936 if tied else 152_064
    return ModelShape(layers, hidden, heads, kv_heads, hidden // heads, intermediate, vocabulary, tied, biased=True)


def _llama3(layers: int, hidden: int, heads: int, intermediate: int, *, tied: bool) -> ModelShape:
    return ModelShape(layers, hidden, heads, 8, hidden // heads, intermediate, 128_256, tied, positions=131_072)


KNOWN: Mapping[str, ModelShape] = {
    "qwen2.5-0.5b": _qwen2(24, 896, 14, 2, 4864, tied=True),
    "qwen2.5-1.5b": _qwen2(28, 1536, 12, 2, 8960, tied=True),
    "qwen2.5-3b": _qwen2(36, 2048, 16, 2, 11_008, tied=True),
    "qwen2.5-7b": _qwen2(28, 3584, 28, 4, 18_944, tied=False),
    "qwen2.5-14b": _qwen2(48, 5120, 40, 8, 13_824, tied=False),
    "qwen2.5-32b": _qwen2(64, 5120, 40, 8, 27_648, tied=False),
    "qwen2.5-72b": _qwen2(80, 8192, 64, 8, 29_568, tied=False),
    "qwen3-0.6b": _qwen3(28, 1024, 16, 3072, tied=True),
    "qwen3-1.7b": _qwen3(28, 2048, 16, 6144, tied=True),
    "qwen3-4b": _qwen3(36, 2560, 32, 9728, tied=True),
    "qwen3-8b": _qwen3(36, 4096, 32, 12_288, tied=False),
    "qwen3-14b": _qwen3(40, 5120, 40, 17_408, tied=False),
    "qwen3-32b": _qwen3(64, 5120, 64, 25_600, tied=False),
    "llama-3.2-1b": _llama3(16, 2048, 32, 8192, tied=True),
    "llama-3.2-3b": _llama3(28, 3072, 24, 8192, tied=True),
    "llama-3.1-8b": _llama3(32, 4096, 32, 14_336, tied=False),
}
"""Published shapes by name, in lower case and without ``-instruct`` or ``-base``."""
FAMILIES: Mapping[str, tuple[bool, bool]] = {
    "qwen3": (True, False),
    "qwen2": (False, True),
    "llama": (False, False),
    "mistral": (False, False),
}
"""Whether the models of a type have norms of heads, and biases."""


def shape_of(model: str) -> ModelShape:
    """Return the shape of a model.

    Args:
        model: a folder with a ``config.json``, or a name whose last part is in ``KNOWN``.

    Raises:
        UsageError: neither is there, or the architecture is another one.
    """
    file = Path(model).expanduser() / "config.json"
    if file.is_file():
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} cannot be read: {error}") from None
        return shape_from(data, str(file))
    name = re.sub(r"-(instruct|base|chat)\b", "", Path(model).name.lower())
    if name in KNOWN:
        return KNOWN[name]
    raise UsageError(
        f"the shape of {model!r} is not known: name a folder with a config.json (model=FOLDER), which needs no "
        f"weights; there is no {file}, and the name is not one of {', '.join(KNOWN)}"
    )


def shape_from(data: Mapping[str, Any], source: str) -> ModelShape:
    """Return the shape that a ``config.json`` describes.

    Args:
        data: its content.
        source: name of the file, for messages.

    Raises:
        UsageError: it is of an architecture that the arithmetic does not know, or lacks a number.
    """
    if not isinstance(data, Mapping):
        raise UsageError(f"{source} does not describe a language model: it is not a table of settings")
    kind = str(data.get("model_type"))
    if kind not in FAMILIES:
        raise UsageError(f"{source} has model_type = {kind!r}, and the arithmetic knows {', '.join(FAMILIES)} only")
    head_norms, biased = FAMILIES[kind]
    try:
        hidden, heads = _count(data, "hidden_size"), _count(data, "num_attention_heads")
        return ModelShape(
            layers=_count(data, "num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=_count(data, "num_key_value_heads", heads),
            head_dim=_count(data, "head_dim", max(1, hidden // heads)),
            intermediate=_count(data, "intermediate_size"),
            vocabulary=_count(data, "vocab_size"),
            tied=bool(data.get("tie_word_embeddings", False)),
            head_norms=head_norms,
            biased=biased,
            positions=_count(data, "max_position_embeddings", 32_768),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{source} does not describe a language model: {type(error).__name__} {error}") from None


def _count(data: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """Return a positive number.

    Args:
        data: settings.
        name: name of the number.
        default: value of a missing number, or one that is null.

    Raises:
        KeyError: it is missing, and has no default.
        TypeError: it is not a number.
        ValueError: it is not one, or less than 1.
    """
    given: Any = data[name] if default is None else data.get(name)
    if given is None and default is not None:
        return default
    if (count := int(given)) < 1:
        raise ValueError(f"{name} = {given}, and must be at least 1")
    return count
