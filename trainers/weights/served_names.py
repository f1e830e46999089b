"""The names under which servers know weights: those of the model's folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from transformers.core_model_loading import revert_weight_conversion


def served_names(model: Any, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return weights under the names and in the shapes of a model folder, which servers expect.

    transformers holds the experts of a mixture as one tensor per layer (``experts.gate_up_proj``), and folders have one
    per expert (``experts.0.gate_proj.weight``). Other models keep their names.

    Args:
        model: model of transformers; only its structure is used.
        weights: its weights, unsharded, with adapters merged.
    """
    found: Mapping[str, Tensor] = revert_weight_conversion(model, dict(weights))
    return found
