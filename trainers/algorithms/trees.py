"""Trees: find episodes of a batch that record the very same action, and count the copies of each token in the rows."""

from __future__ import annotations

import torch
from torch import Tensor

from ..learning.batch import Batch
from ..learning.rows import Rows


def action_U(batch: Batch) -> Tensor:
    """Return the index of the action that each turn records, ``[U]``: branches repeat the turns before their fork.

    The index of an action has no meaning of its own. Two episodes that branched off a third one share its action even
    if the third is not in the batch.
    """
    seen: dict[tuple[str, str, int], int] = {}
    keys = []
    for episode in batch.episodes:
        owners = episode.fork.owners if episode.fork is not None else ()
        for turn in range(len(episode.turns)):
            keys.append((episode.group_id, owners[turn] if turn < len(owners) else episode.episode_id, turn))
    return torch.tensor([seen.setdefault(key, len(seen)) for key in keys], dtype=torch.long)


def copies_U(batch: Batch) -> Tensor:
    """Return the number of episodes of the batch that have the action of each turn, ``[U]``."""
    actions = action_U(batch)
    return torch.bincount(actions)[actions] if actions.numel() else actions


def counted_once(batch: Batch, rows: Rows) -> Rows:
    """Return the rows with the weight of each action divided among its copies.

    An action was sampled once, however many episodes continued from it. Undivided, actions before a branch would count
    for more than the same actions in an episode without branches.
    """
    copies = copies_U(batch)
    if not copies.numel() or int(copies.max()) == 1:
        return rows
    return rows.with_weight(torch.where(rows.mask, rows.weight / copies[rows.turn.clamp_min(0)], rows.weight))
