"""A copy of the policy's backbone, for critics that start from what the policy has learned."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM

from ...errors import UsageError
from ...inference.transformers_policy import load_weights
from ...inference.value_guided import ValueGuidedModel
from ..learning.lora import adapted, merged
from ..learning.parallel import unsharded


def backbone_copy(model: Any) -> Any:
    """Copy a causal language model without its output layer; adapters are merged into the copy.

    If processes share a sharded model, all of them have to call it together, and each gets the whole copy.

    Raises:
        UsageError: the model is guided by values.
    """
    if isinstance(model, ValueGuidedModel):
        raise UsageError(
            "this model is guided by token values and cannot be the backbone of a critic; name the model that it was "
            "made from, or set values.init=nano"
        )
    if hasattr(model, "merge_and_unload"):
        return copy.deepcopy(model).merge_and_unload().base_model
    if not adapted(model) and not any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        return copy.deepcopy(model.base_model)
    state = unsharded(dict(model.state_dict()))
    with torch.random.fork_rng(devices=[]):
        made: Any = AutoModelForCausalLM
        whole = made.from_config(copy.deepcopy(model.config))
    load_weights(whole, merged(model, state) if adapted(model) else state)
    like = next(model.parameters())
    return whole.to(like.device, like.dtype).base_model
