"""VinePPO: PPO without a critic; values are the mean returns of additional rollouts from each state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic
import torch
from torch import Tensor

from ...rollouts import step_values
from ..critics.values import Values
from ..learning.batch import Batch
from ..learning.groups import ROUNDING
from ..learning.kl import KLConfig
from ..learning.loss import Level
from .algorithm import Algorithm, Credit


class VinePPO(Algorithm):
    """``A_u = r_u + γ V̂(s_{u+1}) − V̂(s_u)`` (Kazemnejad et al., arXiv 2410.01679, eq. 5 and 6), a turn as the step.

    ``V̂(s)`` is the mean discounted return of the rollouts that the policy of the episode played from s. Its error has
    mean 0 in every state: no critic has to learn, and none can be wrong. After the last turn the value is 0, also where
    a turn limit ended the episode. The rollouts end at the same limit, so their values are values *until the limit*.

    A turn is skipped if all rollouts from the state before or after it were lost, since 0 would not be their value.
    """

    paper: ClassVar[Mapping[str, Any]] = {
        "epochs": 2,
        "normalizer": "token_mean",
        "group_size": 8,
        "branching": {"strategy": "vine"},
    }
    strategy: ClassVar[str | None] = "vine"

    name: Literal["vine-ppo"] = "vine-ppo"
    """PPO with Monte-Carlo values."""
    gamma: float = pydantic.Field(default=1.0, ge=0, le=1)
    """Discount per turn."""
    whiten: bool = True
    """Subtract the mean of the advantages of a batch's turns, and divide by their deviation."""

    @property
    def credit_level(self) -> Level:
        """Each turn, by its values."""
        return "turn"

    def frozen(self, penalty: KLConfig) -> KLConfig:
        """Return the reference of a KL penalty in the loss.

        Raises:
            ValueError: the penalty is part of the reward.
        """
        if penalty.coef and penalty.where == "reward":
            raise ValueError(
                "loss.kl.where = reward charges an action for the KL of all later turns, and vine-ppo cannot: its "
                "values are returns of rollouts whose KL is not recorded. Use loss.kl.where = loss"
            )
        return penalty

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Put the advantage of each turn on its sampled tokens."""
        value_U = state_values(batch, self.gamma)
        next_U = torch.cat([value_U[1:], value_U.new_zeros(1)])[: value_U.numel()]
        last_U = torch.cat([batch.episode_U[1:], batch.episode_U.new_tensor([-1])])[: next_U.numel()] != batch.episode_U
        advantage_U = batch.reward_U.double() + self.gamma * torch.where(last_U, 0.0, next_U) - value_U
        known_U = torch.isfinite(advantage_U)
        if self.whiten and known_U.any():
            known = advantage_U[known_U]
            apart_U = advantage_U - known.mean()
            largest = max(float(value_U.nan_to_num().abs().max()), float(batch.reward_U.abs().max()))
            if float(apart_U[known_U].abs().max()) <= ROUNDING * largest:  # rewards have 32 bits, and values 64
                apart_U = torch.where(known_U, 0.0, apart_U)
            advantage_U = apart_U / (known.std(correction=0) + 1e-8)
        return Credit(batch.rows.with_turn_advantage(torch.where(known_U, advantage_U, 0.0)), skipped_U=~known_U)


def state_values(batch: Batch, gamma: float) -> Tensor:
    """Return V̂ of the state before each turn, ``[U]``, 64-bit; NaN where no rollout from it has a return."""
    found = [value for episode in batch.episodes for value in step_values.state_values(episode, gamma)]
    return torch.tensor([float("nan") if value is None else value for value in found], dtype=torch.float64)
