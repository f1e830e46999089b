"""Turn-level credit: compare the return from each turn on with that of its peers at the same turn index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic

from ..critics.values import Values
from ..learning.advantages import Scale, centered, returns_to_go
from ..learning.batch import Batch
from ..learning.loss import Level
from .algorithm import Algorithm, Credit


class TurnCredit(Algorithm):
    """``A_{i,u} = (G_{i,u} − mean_j G_{j,u}) / std`` with ``G_{i,u} = Σ_{v≥u} γ^{v−u} r_{i,v}``.

    The turn-level advantage of MT-GRPO (Zeng et al., arXiv 2505.11821, section 4), for any number of turns and for
    rewards on any of them. The mean is over the members of the group that reached turn u. If only one did, its turn
    has no comparison; with ``outcome`` above 0 it still shares in the episode's advantage.
    """

    paper: ClassVar[Mapping[str, Any]] = {"normalizer": "traj_mean"}
    smallest_group: ClassVar[int] = 2

    name: Literal["turn-credit"] = "turn-credit"
    """Turn-level credit from dense rewards."""
    gamma: float = pydantic.Field(default=1.0, ge=0, le=1)
    """Discount per turn."""
    outcome: float = pydantic.Field(default=0.0, ge=0)
    """Weight of the episode's own advantage (as in GRPO), added to that of each of its turns."""
    std: Scale = "none"
    """Divisor of advantages: ``none``, the deviation in the ``group`` (here: of the compared turns), or in the
    ``batch``."""

    @property
    def credit_level(self) -> Level:
        """Each turn, by its return."""
        return "turn"

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Compare the return from each turn on with the group's at the same index, for all of the turn's tokens."""
        place_U = batch.place_U
        longest = int(place_U.max()) + 1 if place_U.numel() else 1
        turn_U = centered(returns_to_go(batch, self.gamma), batch.group_U * longest + place_U, scale=self.std)
        episode_E = centered(batch.return_E, batch.group_E, scale=self.std)
        return Credit(batch.rows.with_turn_advantage(turn_U + self.outcome * episode_E[batch.episode_U]))
