"""GiGPO: attempts of a group pass through the same states, so their actions there are compared as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic
import torch
from torch import Tensor

from ..critics.values import Values
from ..learning.advantages import Scale, centered, returns_to_go
from ..learning.batch import Batch
from ..learning.loss import Level
from .algorithm import Algorithm, Credit


class GiGPO(Algorithm):
    """``A_u = A_E(τ) + ω · A_S(u)``: group-in-group policy optimization (Feng et al., arXiv 2505.10978, eq. 3, 6–8).

    ``A_E`` compares the episode's return with its group's. ``A_S`` compares the discounted return from a turn on,
    ``R_u = Σ_{v≥u} γ^{v−u} r_v``, with that of all turns of the group at the same *anchor state*, including other
    turns of the same episode. A state that occurs once has no comparison, so its ``A_S`` is 0.
    """

    paper: ClassVar[Mapping[str, Any]] = {"normalizer": "traj_mean"}
    smallest_group: ClassVar[int] = 2

    name: Literal["gigpo"] = "gigpo"
    """Group-in-group policy optimization."""
    omega: float = pydantic.Field(default=1.0, ge=0)
    """ω, the weight of the advantage within step groups; 0 leaves GRPO."""
    gamma: float = pydantic.Field(default=0.95, ge=0, le=1)
    """Discount per turn of the return that step groups compare."""
    std: Scale = "none"
    """Divisor of both advantages: ``none`` (the paper's F = 1), the deviation in the ``group`` (its other variant), or
    in the ``batch``."""

    @property
    def credit_level(self) -> Level:
        """Each turn, by its state."""
        return "turn"

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """``A_E + ω A_S`` on each sampled token of a turn."""
        episode_E = centered(batch.return_E, batch.group_E, scale=self.std)
        step_U = centered(returns_to_go(batch, self.gamma), anchors(batch), scale=self.std)
        return Credit(batch.rows.with_turn_advantage(episode_E[batch.episode_U] + self.omega * step_U))


def anchors(batch: Batch) -> Tensor:
    """Return the step group of each turn, ``[U]``: turns of the same task that start in the same state.

    Environments name their states by ``obs_key``. Without one, the text of the observation identifies the state, which
    is the paper's rule. The index of a group has no meaning of its own.
    """
    seen: dict[tuple[int, bool, str], int] = {}
    turns = [turn for episode in batch.episodes for turn in episode.turns]
    keys = (
        (group, turn.obs_key is None, turn.observation.text if turn.obs_key is None else turn.obs_key)
        for group, turn in zip(batch.group_U.tolist(), turns, strict=True)
    )
    return torch.tensor([seen.setdefault(key, len(seen)) for key in keys], dtype=torch.long)
