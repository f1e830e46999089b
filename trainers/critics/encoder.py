"""Encoders: turn token sequences into vectors for a critic's heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol, Self, cast, runtime_checkable

import pydantic
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from ...config import Config
from ...errors import UsageError
from ..learning.parallel import ALONE, ProcessGroup
from .divided import divided
from .sequences import refuse_longer, right_padded


class Encoder(Protocol):
    """A module that reads token sequences of the policy's vocabulary. It is also a ``torch.nn.Module``.

    The vector of a sequence does not depend on the rest of the batch (traps.md, trap 26), and always covers the
    whole sequence: one that is too long is an error.
    """

    width: int
    """Size H of its vectors."""

    def __call__(self, sequences: Sequence[tuple[int, ...]]) -> Tensor:
        """Return one vector for each of B sequences, ``[B, H]``, with gradient if that is recorded.

        Raises:
            UsageError: a sequence is longer than what the encoder can read.
        """
        ...


@runtime_checkable
class PairEncoder(Protocol):
    """An encoder that reads an utterance in its context: after its state, in one pass over both."""

    def pairs(self, states: Sequence[tuple[int, ...]], actions: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """Return vectors of B states, and of the utterance in each, ``[B, H]`` each.

        Raises:
            UsageError: state and utterance together are longer than what the encoder can read.
        """
        ...


@runtime_checkable
class PrefixEncoder(Protocol):
    """A causal encoder, which reads sequences that begin alike in one pass: the states and utterances of an episode."""

    def read(self, sequences: Sequence[tuple[int, ...]], *, tokens: int | None, world: ProcessGroup = ALONE) -> Tensor:
        """Return the vectors of B sequences, ``[B, H]``, in forward passes of at most ``tokens`` padded tokens.

        With ``tokens = None`` there is one pass; several processes divide the passes.

        Raises:
            UsageError: a sequence is longer than what the encoder can read.
        """
        ...

    def parts(self, sequences: Sequence[tuple[int, ...]], *, tokens: int) -> list[list[int]]:
        """Split indices of sequences into such passes, with those that begin alike together."""
        ...


@runtime_checkable
class CountingEncoder(Protocol):
    """An encoder with something to report, such as the number of tokens that it left out."""

    def metrics(self) -> dict[str, float]:
        """Return counts since the last call."""
        ...


EncoderKind = Literal["nano", "causal", "copy", "transformers", "shared", "frozen"]
TooLong = Literal["error", "drop_oldest"]


class PretrainedConfig(Config):
    """A transformers encoder from a folder, with its own tokenizer."""

    path: str = ""
    """Folder with weights and tokenizer (paper: RoBERTa-base)."""
    too_long: TooLong = "error"
    """``error`` stops the run; ``drop_oldest`` reads the newest tokens that fit, and counts the others."""
    train: bool = True
    """Train it together with the heads; otherwise it is frozen."""


class AdapterConfig(Config):
    """The critic's adapters on the policy's own backbone."""

    rank: int = pydantic.Field(default=16, ge=1)
    """LoRA's r: rank of the difference between the critic's weights and the base's."""
    alpha: int = pydantic.Field(default=32, ge=1)
    """LoRA's α: updates are scaled by α/r."""
    targets: list[str] | str = "all-linear"
    """Linear layers to adapt, by the end of their name; ``all-linear`` for every one but the output."""


class EncoderConfig(Config):
    """The encoder of states and utterances. The five numbers shape ``nano`` and ``causal``; the paper has RoBERTa."""

    kind: EncoderKind = "nano"
    """``nano`` reads states and utterances apart. ``causal`` reads each row of an episode once. Both are built over the
    policy's vocabulary. ``copy`` is ``causal``, starting as a copy of the policy's backbone. ``transformers`` is loaded
    from a folder. ``shared`` is the policy's own backbone with adapters. ``frozen`` is that backbone without adapters:
    only the heads learn, and every state and utterance is read once. Both need a policy with ``lora``."""
    pretrained: PretrainedConfig = PretrainedConfig()
    """Settings of ``transformers``."""
    adapter: AdapterConfig = AdapterConfig()
    """Settings of ``shared``."""
    hidden: int = pydantic.Field(default=64, ge=2)
    """Width of the encoder."""
    layers: int = pydantic.Field(default=2, ge=1)
    """Transformer blocks."""
    heads: int = pydantic.Field(default=2, ge=1)
    """Attention heads."""
    intermediate: int = pydantic.Field(default=192, ge=1)
    """Width inside the MLP of a block."""
    features: int = pydantic.Field(default=65_536, ge=1)
    """Vectors that ``frozen`` keeps in memory, of 4 bytes per unit of the policy's width; beyond them, those that were
    not used for longest are read again."""
    initializer_range: float = pydantic.Field(default=0.05, gt=0)
    """Standard deviation of the initial weights; 0.02, the usual one, is too small at these widths."""

    @pydantic.model_validator(mode="after")
    def _divides(self) -> Self:
        if self.kind in ("nano", "causal") and self.hidden % self.heads:
            raise ValueError(
                f"hidden = {self.hidden} cannot be shared out among heads = {self.heads}: choose a multiple"
            )
        if self.kind == "causal" and self.hidden // self.heads % 2:
            raise ValueError(
                f"hidden = {self.hidden} over heads = {self.heads} is an odd width, and a causal encoder rotates pairs "
                "of numbers: choose an even width per head"
            )
        return self


class NanoEncoder(nn.Module):
    """A bidirectional transformer built from a configuration: BERT's blocks, read at a token of its own in front.

    It reads the ids that the policy read, so no text is decoded and encoded again on the way. It has no dropout, so
    that a critic's targets are not noise.

    Args:
        config: shape of the encoder.
        vocabulary: number of ids in the policy's vocabulary.
        context: the longest sequence, in tokens.
        seed: seed of the weights; the global generator keeps its state.
    """

    def __init__(self, config: EncoderConfig, *, vocabulary: int, context: int, seed: int = 0) -> None:
        super().__init__()
        self.width = config.hidden
        self.vocabulary = vocabulary
        self.context = context
        shape = BertConfig(
            vocab_size=vocabulary + 1,  # the last id is the token in front
            hidden_size=config.hidden,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.intermediate,
            max_position_embeddings=context + 1,
            type_vocab_size=1,
            initializer_range=config.initializer_range,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=None,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = BertModel(shape)

    def forward(self, sequences: Sequence[tuple[int, ...]]) -> Tensor:
        """See ``Encoder``."""
        refuse_longer(max(map(len, sequences), default=0), self.context)
        ids, real = right_padded([(self.vocabulary, *sequence) for sequence in sequences])
        device = next(self.body.parameters()).device
        return cast(Tensor, self.body(ids.to(device), attention_mask=real.to(device)).pooler_output.float())


def encode(
    encoder: Encoder,
    sequences: Sequence[tuple[int, ...]],
    *,
    tokens: int | None = 16384,
    world: ProcessGroup = ALONE,
) -> Tensor:
    """Encode any number of sequences: each different one once, similar lengths together.

    Args:
        encoder: encoder to use.
        sequences: B sequences in any order; they may repeat.
        tokens: padded tokens in one forward pass; a single sequence may exceed it. ``None`` for a single pass.
        world: processes that divide the passes; several compute no gradient.

    Returns:
        ``[B, H]``.
    """
    if isinstance(encoder, PrefixEncoder):
        return encoder.read(sequences, tokens=tokens, world=world)
    parts, place_B = _parts([(sequence,) for sequence in sequences], tokens, world)
    vectors = divided(parts, lambda part: encoder([sequence for (sequence,) in part]), world)
    return vectors[place_B.to(vectors.device)]


def encode_pairs(
    encoder: Encoder,
    states: Sequence[tuple[int, ...]],
    actions: Sequence[tuple[int, ...]],
    *,
    tokens: int | None = 16384,
    world: ProcessGroup = ALONE,
) -> tuple[Tensor, Tensor]:
    """Encode states, and the utterances in them: separately, or together by an encoder that can.

    Returns:
        ``[B, H]`` of states and of utterances.
    """
    if isinstance(encoder, PrefixEncoder):
        state_BH, action_BH, _ = encode_steps(encoder, states, actions, (), tokens=tokens, world=world)
        return state_BH, action_BH
    how: dict[str, Any] = {"tokens": tokens, "world": world}
    if not isinstance(encoder, PairEncoder):
        return encode(encoder, states, **how), encode(encoder, actions, **how)
    parts, place_B = _parts(list(zip(states, actions, strict=True)), tokens, world)

    def read(part: Sequence[tuple[tuple[int, ...], ...]]) -> Tensor:
        return torch.cat(encoder.pairs([state for state, _ in part], [action for _, action in part]), dim=-1)

    both_R2H = divided(parts, read, world)
    state_BH, action_BH = both_R2H[place_B.to(both_R2H.device)].chunk(2, dim=-1)
    return state_BH, action_BH


def encode_steps(
    encoder: Encoder,
    states: Sequence[tuple[int, ...]],
    actions: Sequence[tuple[int, ...]],
    following: Sequence[tuple[int, ...]],
    *,
    tokens: int | None = 16384,
    world: ProcessGroup = ALONE,
) -> tuple[Tensor, Tensor, Tensor]:
    """Encode B states with an utterance in each, and N states that follow, which may be none.

    Returns:
        ``[B, H]`` of states and of utterances, and ``[N, H]`` of the states that follow.
    """
    if isinstance(encoder, PrefixEncoder):
        said = [(*state, *action) for state, action in zip(states, actions, strict=True)]
        vectors = encoder.read([*states, *said, *following], tokens=tokens, world=world)
        count = len(states)
        return vectors[:count], vectors[count : 2 * count], vectors[2 * count :]
    how: dict[str, Any] = {"tokens": tokens, "world": world}
    state_BH, action_BH = encode_pairs(encoder, states, actions, **how)
    return state_BH, action_BH, encode(encoder, following, **how) if following else state_BH[:0]


def pair_batches(
    encoder: Encoder, pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], *, tokens: int
) -> list[list[int]]:
    """Split indices of states with an utterance into micro-batches; what is read together stays together.

    Args:
        encoder: encoder that will read them.
        pairs: B states, each with an utterance.
        tokens: padded tokens in one micro-batch; a single pair may exceed it.
    """
    if isinstance(encoder, PrefixEncoder):
        return encoder.parts([(*state, *action) for state, action in pairs], tokens=tokens)
    parts: list[list[int]] = [[]]
    different: set[tuple[int, ...]] = set()
    longest = 0
    for index in sorted(range(len(pairs)), key=lambda index: (len(pairs[index][0]), pairs[index][0])):
        more = different | set(pairs[index])
        longest = max(longest, *(len(ids) for ids in pairs[index]))
        if parts[-1] and len(more) * longest > tokens:
            parts.append([])
            more = set(pairs[index])
            longest = max(len(ids) for ids in more)
        parts[-1].append(index)
        different = more
    return parts


def _parts(
    wanted: Sequence[tuple[tuple[int, ...], ...]], tokens: int | None, world: ProcessGroup
) -> tuple[list[list[tuple[tuple[int, ...], ...]]], Tensor]:
    """Split the distinct ones of B sequences or pairs into forward passes; also return the index of each of the B."""
    if not wanted:
        raise UsageError("there is no sequence to encode")

    def size(one: tuple[tuple[int, ...], ...]) -> int:
        return sum(len(ids) for ids in one)

    different = sorted(set(wanted), key=lambda one: (size(one), one))
    place = {one: index for index, one in enumerate(different)}
    parts: list[list[tuple[tuple[int, ...], ...]]] = []
    most = math.inf if tokens is None else world.fair(tokens, sum(map(size, different)))
    for one in different:  # sorted by length, so a part is padded to the newest
        if not parts or (len(parts[-1]) + 1) * size(one) > most:
            parts.append([])
        parts[-1].append(one)
    return parts, torch.tensor([place[one] for one in wanted])
