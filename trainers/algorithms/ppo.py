"""PPO: advantages against a learned value of states, over turns or over tokens.

Schulman et al., "Proximal Policy Optimization Algorithms" (arXiv 1707.06347), with generalized advantage estimation
(arXiv 1506.02438, eq. 16) whose λ may differ for the policy and the critic ("decoupled GAE", VAPO, arXiv 2504.05118).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import pydantic
import torch
from torch import Tensor

from ...errors import UsageError
from ..critics.values import Values
from ..learning.advantages import bootstraps, final_prompt
from ..learning.batch import Batch
from ..learning.gae import DecisionLevel, Decisions
from ..learning.loss import Level
from .algorithm import Algorithm, Credit


class PPO(Algorithm):
    """Generalized advantages, and λ-returns as targets of the critic."""

    paper: ClassVar[Mapping[str, Any]] = {"epochs": 4, "minibatch": 16, "normalizer": "token_mean"}
    needs_values: ClassVar[bool] = True

    name: Literal["ppo"] = "ppo"
    """Proximal policy optimization."""
    level: DecisionLevel = "turn"
    """Unit of a decision: a ``turn``, whose tokens share one advantage, or a ``token``."""
    gamma: float = pydantic.Field(default=1.0, ge=0, le=1)
    """Discount per turn, at either level."""
    lam: float = pydantic.Field(default=0.95, ge=0, le=1)
    """λ of the policy's advantages, per decision: 1 trusts the returns, 0 the critic. Level ``token`` has a default of
    1. At 0.95 per token, the end of a turn of 500 tokens would count 7e-12; VAPO lets λ grow with the length."""
    lam_critic: float = pydantic.Field(default=1.0, ge=0, le=1)
    """λ of the critic's targets: at 1 they are Monte-Carlo returns (VAPO's choice)."""
    whiten: bool = True
    """Subtract the mean of the advantages of a batch's decisions, and divide by their deviation."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _lam_of_tokens(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("level") == "token":
            return {"lam": 1.0, **given}
        return given

    @property
    def credit_level(self) -> Level:
        """The decisions of ``level``."""
        return self.level

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Put the advantage and the critic's target of each decision on all of its tokens.

        Raises:
            UsageError: there is no critic.
            ContractError: a truncated episode does not say what the agent would have read next.
        """
        if values is None:
            raise UsageError("ppo measures advantages against a critic: pass values")
        decisions = Decisions.of(batch, self.level, gamma=self.gamma)
        value_S = decisions.gather(values.values(batch.rows))
        final_E = final_values(batch, values)
        advantage_S = decisions.gae(value_S, final_E, lam=self.lam)
        target_S = value_S + decisions.gae(value_S, final_E, lam=self.lam_critic)
        if self.whiten and advantage_S.numel():
            deviation = advantage_S.std(correction=0)
            advantage_S = (advantage_S - advantage_S.mean()) / (deviation + 1e-8)
        tokens = len(batch.rows)
        rows = batch.rows.with_token_advantage(decisions.spread(advantage_S, tokens))
        return Credit(rows, decisions.spread(target_S, tokens), decisions.spread(value_S, tokens))

    def warming(self) -> Self:
        """Return the same with Monte-Carlo targets, since an untrained critic must not learn from itself."""
        return self.model_copy(update={"lam_critic": 1.0})


def final_values(batch: Batch, values: Values) -> Tensor:
    """Return V of the state after each episode's last turn, ``[E]``: 0 unless only a limit ended it (trap 14).

    Raises:
        ContractError: a truncated episode does not say what the agent would have read next.
    """
    cut = {number: final_prompt(episode) for number, episode in enumerate(batch.episodes) if bootstraps(episode)}
    final_E = torch.zeros(len(batch.episodes))
    if cut:
        final_E[list(cut)] = values.final(list(cut.values())).float()
    return final_E
