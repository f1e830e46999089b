"""The policy's frozen backbone as an encoder: only a critic's heads learn, and each sequence is read once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from ..learning.parallel import ALONE, ProcessGroup
from .features import Features
from .prefix_trees import TreeEncoder, additive_mask
from .shared_backbone import active_adapters, backbone_of, refuse_unfrozen


class FrozenEncoder(TreeEncoder):
    """The last hidden state of the policy's backbone, with all adapters switched off.

    The base of a policy with adapters never changes, so the vector of a sequence does not either. It is kept, and every
    later update of the critic computes with its heads alone. An utterance is read after its state. The module has no
    parameters, and its copy is itself. A checkpoint has no vectors: a resumed run reads them again, in other batches,
    which may change their last digits.

    Args:
        model: the policy's model, with adapters on a frozen base.
        capacity: number of vectors to keep.

    Raises:
        UsageError: the policy has no adapters, or its base is trained too.
    """

    place: Tensor

    def __init__(self, model: Any, *, capacity: int) -> None:
        refuse_unfrozen(model)
        super().__init__(int(model.config.hidden_size), getattr(model.config, "max_position_embeddings", None))
        object.__setattr__(self, "_model", model)  # not a submodule: it belongs to the policy
        self.features = Features(capacity)
        self.register_buffer("place", torch.empty(0, device=next(model.parameters()).device), persistent=False)

    def read(
        self, sequences: Sequence[tuple[int, ...]], *, tokens: int | None = 16384, world: ProcessGroup = ALONE
    ) -> Tensor:
        """See ``PrefixEncoder``."""
        read = partial(super().read, tokens=tokens, world=world)
        found_BH = self.features.of(sequences, read)
        return found_BH.to(self.place.device)

    def metrics(self) -> dict[str, float]:
        """See ``CountingEncoder``."""
        return self.features.metrics()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def _hidden(self, ids_BL: Tensor, attends_BLL: Tensor | None, position_BL: Tensor | None) -> Tensor:
        model, device = self.__dict__["_model"], self.place.device
        like = torch.empty(0, dtype=next(model.parameters()).dtype, device=device)
        with active_adapters(model, []):
            output = backbone_of(model)(
                input_ids=ids_BL.to(device),
                attention_mask=additive_mask(attends_BLL, like),
                position_ids=position_BL.to(device) if position_BL is not None else None,
                use_cache=False,
            )
        hidden_BLH: Tensor = output.last_hidden_state
        return hidden_BLH.float()
