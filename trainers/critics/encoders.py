"""The encoder that a configuration names."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .encoder import EncoderConfig, NanoEncoder
from .shared_backbone import SharedEncoder
from .transformers_encoder import TransformersEncoder


def encoder_named(config: EncoderConfig, model: Any, tokenizer: Any, *, seed: int = 0) -> nn.Module:
    """An encoder for a critic of a policy.

    Args:
        config: says which.
        model: the policy; a shared encoder puts its adapters on it.
        tokenizer: the policy's.
        seed: of whatever is not loaded.

    Raises:
        ModelError: there is no encoder in the folder that is named.
        UsageError: an encoder is to be shared with a policy that has no adapters.
    """
    device: torch.device = next(model.parameters()).device
    if config.kind == "shared":
        return SharedEncoder(model, config.adapter, seed=seed)
    if config.kind == "transformers":
        return TransformersEncoder.load(config.pretrained, tokenizer, device=device)
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    context = int(model.config.max_position_embeddings)
    return NanoEncoder(config, vocabulary=vocabulary, context=context, seed=seed).to(device)
