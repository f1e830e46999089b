"""A frozen reference policy, from which a KL penalty measures the distance."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any, Self

import torch

from ...errors import CheckpointError, ModelError
from ...inference.attention import Attention
from ...inference.models import load_model
from .parallel import shard, unsharded
from .rows import Rows
from .scorer import Scorer


class Reference:
    """A model that is never trained, for the log-probabilities of the same tokens under it.

    It is a second model in memory: its weights, and the logits of one micro-batch while it scores, but neither
    gradients nor optimizer state. Weights in 32 bits are at most a quarter of AdamW's memory for the policy. A KL
    penalty of coefficient 0 needs no reference, and the script then makes none.

    A checkpoint has no copy of it, only a digest. A resumed run loads the reference again from its source, and is
    refused if that has changed meanwhile. Processes that learn together shard it.

    Args:
        model: a causal language model of its own, not the one that is trained.
        scorer: how it computes: as the learner does, or rounding alone would be a distance from it.
    """

    def __init__(self, model: Any, scorer: Scorer | None = None) -> None:
        self.scorer = scorer or Scorer()
        self.model = shard(model.eval().requires_grad_(False), self.scorer.world)

    @classmethod
    def copy_of(cls, model: Any, scorer: Scorer | None = None) -> Self:
        """Copy a model as it is now; training the model does not change the copy."""
        return cls(copy.deepcopy(model), scorer)

    @classmethod
    def load(
        cls,
        path: str,
        tokenizer: Any,
        *,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        attention: Attention = "auto",
        scorer: Scorer | None = None,
    ) -> Self:
        """Load a reference from a model folder.

        Args:
            path: folder of the model.
            tokenizer: tokenizer of the policy, which must be the reference's too.
            dtype: data type of the weights.
            device: device of the weights.
            attention: implementation of attention, the policy's.
            scorer: how it computes.

        Raises:
            ModelError: there is no such model, or its tokens have other meanings.
        """
        model, own = load_model(path, dtype=dtype, device=device, attention=attention)
        if own.get_vocab() != tokenizer.get_vocab():
            raise ModelError(
                f"the reference or teacher {path} has another vocabulary than the model that is trained: "
                "log-probabilities of token ids cannot be compared; name a model with the same tokenizer"
            )
        return cls(model, scorer)

    def scored(self, rows: Rows) -> Rows:
        """Return the same rows with ``logp_ref``; processes that learn together call it together."""
        return rows.with_logp_ref(self.scorer.score_all(self.model, rows)[0])

    def state_dict(self) -> dict[str, Any]:
        """Return the digest that identifies this reference."""
        return {"digest": self._digest()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Check that a resumed run has the same reference as before.

        Raises:
            CheckpointError: the weights have changed.
        """
        if state["digest"] != self._digest():
            raise CheckpointError(
                "the reference model is not the one that this run began with: its weights have changed since; "
                "restore the folder that loss.kl.reference (or model) names, or start a new run"
            )

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for name, sharded in sorted(self.model.state_dict().items()):
            tensor = unsharded(sharded)
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()
