"""Token sequences as inputs of a model: right-padded batches, and many sequences in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import UsageError


def right_padded(sequences: Sequence[Sequence[int]], *, fill: int = 0) -> tuple[Tensor, Tensor]:
    """Return B sequences as a batch of L tokens each.

    Args:
        sequences: sequences of ids, one or more.
        fill: id of the padding.

    Returns:
        Ids, and an attention mask that is 1 on every real token, ``[B, L]`` each, on the CPU.
    """
    ids_BL = torch.full((len(sequences), max(len(ids) for ids in sequences)), fill)
    attention_BL = torch.zeros_like(ids_BL)
    for place, ids in enumerate(sequences):
        ids_BL[place, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        attention_BL[place, : len(ids)] = 1
    return ids_BL, attention_BL


def refuse_longer(longest: int, context: int | None) -> None:
    """Refuse a sequence that an encoder cannot read as a whole.

    Args:
        longest: number of tokens of the longest sequence.
        context: number of tokens that the encoder can read; ``None`` for no limit.

    Raises:
        UsageError: the sequence is longer.
    """
    if context is not None and longest > context:
        raise UsageError(
            f"the critic is to read {longest} tokens, and its encoder holds {context}: it would judge what it has not "
            "read; use a shorter agent.context (last:K), or an encoder with a longer context"
        )


def last_places(attention_BL: Tensor) -> Tensor:
    """Return the index of each sequence's last real token in the flattened, right-padded ``[B·L]`` batch, ``[B]``."""
    count, longest = attention_BL.shape
    return torch.arange(count) * longest + attention_BL.sum(-1) - 1


def batches(sequences: Sequence[Sequence[int]], budget: int) -> list[list[int]]:
    """Split indices of sequences, longest first, into parts of at most ``budget`` padded tokens (or a single one)."""
    parts: list[list[int]] = []
    for place in sorted(range(len(sequences)), key=lambda place: -len(sequences[place])):
        if not parts or (len(parts[-1]) + 1) * len(sequences[parts[-1][0]]) > budget:
            parts.append([])
        parts[-1].append(place)
    return parts
