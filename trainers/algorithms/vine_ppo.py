"""VinePPO: PPO whose values are the mean returns of fresh rollouts from each state, and no critic at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic
import torch
from torch import Tensor

from ..critics.values import Values
from ..learning.batch import Batch
from .algorithm import Algorithm, Credit


class VinePPO(Algorithm):
    """``A_u = r_u + γ V̂(s_{u+1}) − V̂(s_u)`` (Kazemnejad et al., arXiv 2410.01679, eq. 5 and 6), a turn as the step.

    ``V̂(s)`` is the mean discounted return of the rollouts that were played from s by the policy of the episode itself,
    so its error has mean 0, whatever the state: no critic has to learn, and none can be wrong. After the last turn
    the value is 0, also where a turn limit ended the episode: the rollouts end at the same limit, so theirs are values
    *until the limit*, and past it nothing is paid.

    A turn is not learnt from where all rollouts from the state before or after it were lost: 0 would be no value.
    """

    paper: ClassVar[Mapping[str, Any]] = {
        "epochs": 2,
        "normaliser": "token_mean",
        "k": 8,
        "branching": {"strategy": "vine"},
    }
    strategy: ClassVar[str | None] = "vine"

    name: Literal["vine-ppo"] = "vine-ppo"
    """PPO with Monte-Carlo values."""
    gamma: float = pydantic.Field(default=1.0, ge=0, le=1)
    """Discount per turn."""
    whiten: bool = True
    """Centre the advantages of a batch's turns, and divide them by their deviation."""

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """The advantage of each turn on its sampled tokens."""
        value_U = state_values(batch, self.gamma)
        next_U = torch.cat([value_U[1:], value_U.new_zeros(1)])[: value_U.numel()]
        last_U = torch.cat([batch.episode_U[1:], batch.episode_U.new_tensor([-1])])[: next_U.numel()] != batch.episode_U
        advantage_U = batch.reward_U.double() + self.gamma * torch.where(last_U, 0.0, next_U) - value_U
        known_U = torch.isfinite(advantage_U)
        if self.whiten and known_U.any():
            known = advantage_U[known_U]
            advantage_U = (advantage_U - known.mean()) / (known.std(correction=0) + 1e-8)
        return Credit(batch.rows.with_turn_advantage(torch.where(known_U, advantage_U, 0.0)))


def state_values(batch: Batch, gamma: float) -> Tensor:
    """V̂ of the state before each turn, ``[U]``, 64-bit; NaN where no rollout from it came to an end.

    Rollouts count that were played to an end of the environment's making: one that the machinery lost has no return,
    and one that the policy did not see through has only what it was paid until then.
    """
    found: list[float] = []
    for episode in batch.episodes:
        returns: list[list[float]] = [[] for _ in episode.turns]
        for ahead in episode.lookaheads:
            if ahead.outcome.trainable and ahead.turn < len(returns):
                returns[ahead.turn].append(sum(gamma**later * paid for later, paid in enumerate(ahead.rewards)))
        found += [sum(each) / len(each) if each else float("nan") for each in returns]
    return torch.tensor(found, dtype=torch.float64)
