"""Rows of earlier steps from which a value model learns again, with the targets that they had."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..learning.rows import Rows

KEPT = ("ids", "mask", "row", "weight")
"""The columns that a value model reads; the others of a kept row are 0."""


class ValueReplay:
    """The last steps' rows and targets.

    A policy learns from what it has just played. Its value model may learn from more: PPG's auxiliary phase fits the
    values to the targets of many steps (Cobbe et al., arXiv 2009.04416, §2). A kept target is not computed again: it
    says what the policy of its step returned.

    Args:
        steps: number of earlier steps to keep.
    """

    def __init__(self, steps: int) -> None:
        self._kept: deque[dict[str, Tensor]] = deque(maxlen=steps)

    def joined(self, rows: Rows, target_T: Tensor) -> tuple[Rows, Tensor]:
        """Return these rows and targets, followed by all kept ones as further rows, and keep these.

        Args:
            rows: rows of a step, with weights. Rows without any weight are not kept.
            target_T: targets, ``[T]``.
        """
        if not self._kept.maxlen:
            return rows, target_T
        joined = {name: [column] for name, column in rows.columns().items()}
        targets, first = [target_T], int(rows.row.max()) + 1
        for kept in self._kept:
            size = len(kept["ids"])
            for name, columns in joined.items():
                columns.append(kept[name] if name in KEPT else torch.zeros(size, dtype=columns[0].dtype))
            joined["row"][-1] = kept["row"] + first
            targets.append(kept["target"])
            first += int(kept["row"].max()) + 1
        self._kept.append(_columns(rows, target_T))
        return Rows(**{name: torch.cat(columns) for name, columns in joined.items()}), torch.cat(targets)

    def state_dict(self) -> list[dict[str, Tensor]]:
        """Return all that is kept, the oldest first."""
        return list(self._kept)

    def load_state_dict(self, state: Sequence[Mapping[str, Tensor]]) -> None:
        """Continue from ``state_dict``; with fewer steps to keep, the newest stay."""
        self._kept.clear()
        self._kept.extend(map(dict, state))


def _columns(rows: Rows, target_T: Tensor) -> dict[str, Tensor]:
    """Return what is kept of a step: the rows with a token to learn from."""
    used_T = torch.isin(rows.row, rows.row[rows.mask & (rows.weight != 0)])
    columns = rows.columns()
    return {name: columns[name][used_T] for name in KEPT} | {"target": target_T[used_T]}
