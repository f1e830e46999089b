"""The seam to a critic of states: what advantages over turns and tokens are measured against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from ..learning.rows import Rows


class Values(Protocol):
    """A critic that values the state before every sampled token: V of all that stands left of it in its row."""

    def values(self, rows: Rows) -> Tensor:
        """V of the state in which each sampled token was drawn, 0 on context, ``[T]`` on the CPU, without gradient.

        The value of the state before a *turn* is that of its first sampled token.
        """
        ...

    def final(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        """V of the state that each prompt shows, ``[len(prompts)]``: where a limit cut an episode off."""
        ...

    def fit(self, rows: Rows, target_T: Tensor) -> Mapping[str, float]:
        """Regress the values of the sampled tokens on targets, weighted by ``rows.weight``; metrics."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next ``fit`` depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        ...
