"""A causal encoder of the critic's own, which reads a row once for all of its states and utterances."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3Model

from ...errors import UsageError
from .encoder import EncoderConfig
from .prefix_trees import TreeEncoder, additive_mask


class CausalEncoder(TreeEncoder):
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
        settings = cast(Any, backbone).config
        attention = getattr(settings, "_attn_implementation", "sdpa")
        if attention not in ("sdpa", "eager"):
            raise UsageError(
                f"a causal critic reads several utterances after one prompt, which {attention!r} attention cannot "
                "mask; set critic_model.encoder.kind to causal, nano or transformers, or load the policy with sdpa"
            )
        super().__init__(int(settings.hidden_size), getattr(settings, "max_position_embeddings", None))
        self.body = backbone.eval().requires_grad_(True)

    def _hidden(self, ids_BL: Tensor, attends_BLL: Tensor | None, position_BL: Tensor | None) -> Tensor:
        like = next(self.body.parameters())
        output = self.body(
            input_ids=ids_BL.to(like.device),
            attention_mask=additive_mask(attends_BLL, like),
            position_ids=position_BL.to(like.device) if position_BL is not None else None,
            use_cache=False,
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
