"""Trees: which episodes of a batch record the very same action, and how often a token then stands in its rows."""

from __future__ import annotations

import torch
from torch import Tensor

from ..learning.batch import Batch
from ..learning.rows import Rows


def action_U(batch: Batch) -> Tensor:
    """Which action each turn records, ``[U]``: branches repeat the turns of the episode that they left.

    The index of an action means nothing but "the same". Two episodes that left a third one share its action even where
    that one itself is not in the batch.
    """
    seen: dict[tuple[str, str, int], int] = {}
    keys = []
    for episode in batch.episodes:
        owners = episode.fork.owners if episode.fork is not None else ()
        for turn in range(len(episode.turns)):
            keys.append((episode.group_id, owners[turn] if turn < len(owners) else episode.episode_id, turn))
    return torch.tensor([seen.setdefault(key, len(seen)) for key in keys], dtype=torch.long)


def copies_U(batch: Batch) -> Tensor:
    """In how many episodes of the batch the action of each turn stands, ``[U]``."""
    actions = action_U(batch)
    return torch.bincount(actions)[actions] if actions.numel() else actions


def counted_once(batch: Batch, rows: Rows) -> Rows:
    """The rows, in which what an action counts for is divided among its copies.

    An action was sampled once, however many episodes went on from it: undivided, what was done before a branch would
    count for more than the same thing done where nobody branched.
    """
    copies = copies_U(batch)
    if not copies.numel() or int(copies.max()) == 1:
        return rows
    return rows.with_weight(torch.where(rows.mask, rows.weight / copies[rows.turn.clamp_min(0)], rows.weight))
