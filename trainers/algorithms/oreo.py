"""OREO: soft-Bellman consistency of a policy and its value, on episodes of any origin.

The best policy with a price β on its divergence from π_ref satisfies ``V(s) − γ V(s′) = r − β log π(a|s)/π_ref(a|s)``
for *every* action, by any player. So stored episodes teach without importance weights, failures included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import pydantic
import torch

from ...errors import UsageError
from ..critics.values import Values
from ..learning.batch import Batch
from ..learning.gae import DecisionLevel, Decisions
from .algorithm import Algorithm, Credit
from .ppo import final_values


class OREO(Algorithm):
    """Offline reasoning optimization (Wang et al., arXiv 2412.16145, section 3.2).

    With ``ℓ_i = log π(a_i|s_i)/π_ref(a_i|s_i)``, both losses square the residual
    ``x_t = V(s_t) − Σ_{i≥t} (r_i − β ℓ_i)``: the critic's gradient flows through V(s_t) alone, the policy's through
    ℓ_t alone. The latter is ``2βx_t ∇ log π(a_t|s_t)``, which is REINFORCE with the advantage ``−x_t``. So the loss
    kernel serves, and its rate absorbs 2β. With ``lam`` below 1, the residual is a λ-weighted sum of one-step residuals
    that bootstrap from V, as the λ-returns of DQO (arXiv 2410.09302). DQO's importance weights are left out, and so is
    OREO's additional KL over the whole distribution: the kernel reads sampled tokens.
    """

    paper: ClassVar[Mapping[str, Any]] = {"values": {"loss": "squared"}}
    needs_values: ClassVar[bool] = True

    name: Literal["oreo"] = "oreo"
    """Offline soft-Bellman consistency."""
    level: DecisionLevel = "token"
    """Unit of a decision: a ``token`` (the paper), or a ``turn``, with the log-ratio of all of its tokens."""
    beta: float = pydantic.Field(default=0.03, gt=0)
    """β, the price of a nat of divergence from the initial model, in units of reward (paper: 0.03)."""
    gamma: float = pydantic.Field(default=1.0, ge=0, le=1)
    """Discount per turn."""
    lam: float = pydantic.Field(default=1.0, ge=0, le=1)
    """λ per decision: 1 sums to the end of the episode (OREO); less bootstraps from V (DQO)."""

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Put ``−x_t`` on the tokens of each decision, with ``V(s_t) − x_t`` as the critic's target.

        Args:
            batch: the batch, whose rows have the present policy's ``logp_old`` and the reference's ``logp_ref``.
            values: the critic.

        Raises:
            UsageError: there is no critic.
            ContractError: a truncated episode lacks the prompt that would have come next.
        """
        if values is None:
            raise UsageError("oreo needs the value of each state: pass values")
        decisions = Decisions.of(batch, self.level, gamma=self.gamma)
        paid_N = self.beta * (batch.rows.logp_old - batch.rows.logp_ref)[decisions.place_N].double()
        paid_S = torch.zeros_like(decisions.reward_S).index_add(0, decisions.decision_N, paid_N)
        decisions = replace(decisions, reward_S=decisions.reward_S - paid_S)
        value_S = decisions.gather(values.values(batch.rows))
        advantage_S = decisions.gae(value_S, final_values(batch, values), lam=self.lam)
        tokens = len(batch.rows)
        rows = batch.rows.with_token_advantage(decisions.spread(advantage_S, tokens))
        return Credit(rows, decisions.spread(value_S + advantage_S, tokens))
