"""The policy's frozen backbone as an encoder: only a critic's heads learn, and each sequence is read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ..learning.parallel import ALONE, ProcessGroup
from . import prefix_trees
from .causal_encoder import LINEAR_PER_WIDTH
from .features import Features
from .shared_backbone import active_adapters, backbone_of, refuse_unfrozen


class FrozenEncoder(nn.Module):
    """The last hidden state of the policy's backbone, with all adapters switched off.

    The base of a policy with adapters never changes, so the vector of a sequence does not either. It is kept, and every
    later update of the critic computes with its heads alone. An utterance is read after its state. The module has no
    parameters, and its copy is itself.

    Args:
        model: the policy's model, with adapters on a frozen base.
        capacity: number of vectors to keep.

    Raises:
        UsageError: the policy has no adapters, or its base is trained too.
    """

    place: Tensor

    def __init__(self, model: Any, *, capacity: int) -> None:
        super().__init__()
        refuse_unfrozen(model)
        object.__setattr__(self, "_model", model)  # not a submodule: it belongs to the policy
        self.width = int(model.config.hidden_size)
        self.context = getattr(model.config, "max_position_embeddings", None)
        self.features = Features(capacity)
        self.register_buffer("place", torch.empty(0, device=next(model.parameters()).device), persistent=False)

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
                f"the critic is to read {longest} tokens, and the policy's backbone holds {self.context}: use a "
                "shorter agent.context (last:K)"
            )
        found_BH = self.features.of(
            sequences,
            lambda missing: prefix_trees.read(missing, self._hidden, linear=self._linear, tokens=tokens, world=world),
        )
        return found_BH.to(self.place.device)

    def parts(self, sequences: Sequence[tuple[int, ...]], *, tokens: int) -> list[list[int]]:
        """See ``PrefixEncoder``."""
        found = prefix_trees.forest(sequences, linear=self._linear)
        return [found.members(part) for part in found.passes(tokens)]

    def metrics(self) -> dict[str, float]:
        """See ``CountingEncoder``."""
        return self.features.metrics()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @property
    def _linear(self) -> int:
        return LINEAR_PER_WIDTH * self.width

    def _hidden(self, ids_BL: Tensor, attends_BLL: Tensor | None, position_BL: Tensor | None) -> Tensor:
        model, device = self.__dict__["_model"], self.place.device
        mask = None
        if attends_BLL is not None and position_BL is not None:
            dtype = next(model.parameters()).dtype
            mask = torch.zeros(attends_BLL.shape, dtype=dtype).masked_fill_(~attends_BLL, torch.finfo(dtype).min)
            mask, position_BL = mask[:, None].to(device), position_BL.to(device)
        with active_adapters(model, []):
            output = backbone_of(model)(
                input_ids=ids_BL.to(device), attention_mask=mask, position_ids=position_BL, use_cache=False
            )
        hidden_BLH: Tensor = output.last_hidden_state
        return hidden_BLH.float()
