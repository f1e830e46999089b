"""Create the encoder of a configuration."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .backbone_copy import backbone_copy
from .causal_encoder import CausalEncoder, nano_backbone
from .encoder import EncoderConfig, NanoEncoder
from .frozen_backbone import FrozenEncoder
from .shared_backbone import SharedEncoder
from .transformers_encoder import TransformersEncoder


def is_language_model(config: EncoderConfig) -> bool:
    """Whether the encoder is a language model of the critic's own, which several processes have to shard."""
    return config.kind == "copy"


def encoder_named(config: EncoderConfig, model: Any, tokenizer: Any, *, seed: int = 0) -> nn.Module:
    """Create an encoder for a critic of a policy.

    Args:
        config: settings of the encoder.
        model: the policy's model; a shared encoder puts its adapters on it.
        tokenizer: tokenizer of the policy.
        seed: seed of all weights that are not loaded.

    Raises:
        ModelError: there is no encoder in the given folder.
        UsageError: an encoder would be shared with a policy without adapters.
    """
    device: torch.device = next(model.parameters()).device
    if config.kind == "shared":
        return SharedEncoder(model, config.adapter, seed=seed)
    if config.kind == "frozen":
        return FrozenEncoder(model, capacity=config.features)
    if config.kind == "transformers":
        return TransformersEncoder.load(config.pretrained, tokenizer, device=device)
    if config.kind == "copy":
        return CausalEncoder(backbone_copy(model).float())  # 32-bit, since small steps must count
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    context = int(model.config.max_position_embeddings)
    if config.kind == "causal":
        return CausalEncoder(nano_backbone(config, vocabulary=vocabulary, context=context, seed=seed)).to(device)
    return NanoEncoder(config, vocabulary=vocabulary, context=context, seed=seed).to(device)
