"""A causal encoder of the critic's own, which reads a row once for all of its states and utterances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3Model

from ...errors import UsageError
from ..learning.parallel import ALONE, ProcessGroup
from . import prefix_trees
from .encoder import EncoderConfig

LINEAR_PER_WIDTH = 6
"""A token costs some 13 H² multiplications per layer, and 2 H per token that it attends to."""


class CausalEncoder(nn.Module):
    """A causal transformer: the vector of a sequence is its last hidden state, so a prefix is read on the way.

    States of one episode are prefixes of its row, and utterances continue their states. They are read in one pass
    (``prefix_trees.py``), and a vector never depends on what comes after its sequence.

    Args:
        backbone: causal model ``backbone(input_ids=, attention_mask=, position_ids=).last_hidden_state``, trained in
            place; its attention must take masks (``sdpa`` or ``eager``).

    Raises:
        UsageError: the attention of the backbone takes no masks.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        settings = cast(Any, backbone).config
        attention = getattr(settings, "_attn_implementation", "sdpa")
        if attention not in ("sdpa", "eager"):
            raise UsageError(
                f"a causal critic reads several utterances after one prompt, which {attention!r} attention cannot "
                "mask; set critic_model.encoder.kind to causal, nano or transformers, or load the policy with sdpa"
            )
        self.body = backbone.eval().requires_grad_(True)
        self.width = int(settings.hidden_size)
        self.context: int | None = getattr(settings, "max_position_embeddings", None)

    def forward(self, sequences: Sequence[tuple[int, ...]]) -> Tensor:
        """See ``Encoder``."""
        return self.read(sequences)

    def read(
        self, sequences: Sequence[tuple[int, ...]], *, tokens: int | None = 16384, world: ProcessGroup = ALONE
    ) -> Tensor:
        """See ``PrefixEncoder``."""
        longest = max((len(ids) for ids in sequences), default=0)
        if self.context is not None and longest > self.context:
            raise UsageError(
                f"the critic is to read {longest} tokens, and its encoder holds {self.context}: it would judge what it "
                "has not read; use a shorter agent.context (last:K), or an encoder with a longer context"
            )
        return prefix_trees.read(sequences, self._hidden, linear=self._linear, tokens=tokens, world=world)

    def parts(self, sequences: Sequence[tuple[int, ...]], *, tokens: int) -> list[list[int]]:
        """See ``PrefixEncoder``."""
        found = prefix_trees.forest(sequences, linear=self._linear)
        return [found.members(part) for part in found.passes(tokens)]

    @property
    def _linear(self) -> int:
        return LINEAR_PER_WIDTH * self.width

    def _hidden(self, ids_BL: Tensor, attends_BLL: Tensor | None, position_BL: Tensor | None) -> Tensor:
        like = next(self.body.parameters())
        mask = None
        if attends_BLL is not None and position_BL is not None:
            never = torch.finfo(like.dtype).min
            mask = torch.zeros(attends_BLL.shape, dtype=like.dtype).masked_fill_(~attends_BLL, never)[:, None]
            mask, position_BL = mask.to(like.device), position_BL.to(like.device)
        output = self.body(
            input_ids=ids_BL.to(like.device), attention_mask=mask, position_ids=position_BL, use_cache=False
        )
        return cast(Tensor, output.last_hidden_state).float()


def nano_backbone(config: EncoderConfig, *, vocabulary: int, context: int, seed: int = 0) -> nn.Module:
    """Build a causal transformer over the policy's vocabulary, in the shape of a nano policy.

    Args:
        config: shape of the encoder.
        vocabulary: number of ids in the policy's vocabulary.
        context: the longest sequence, in tokens.
        seed: seed of the weights; the global generator keeps its state.
    """
    shape = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        head_dim=config.hidden // config.heads,
        intermediate_size=config.intermediate,
        max_position_embeddings=context,
        initializer_range=config.initializer_range,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return cast(nn.Module, Qwen3Model(shape))
