"""On-policy distillation: a stronger model grades every token that the policy itself has sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pydantic
import torch

from ...errors import UsageError
from ..critics.values import Values
from ..learning.advantages import backward_sums, centered
from ..learning.batch import Batch
from ..learning.gae import Decisions
from ..learning.kl import KLConfig
from ..learning.loss import Level
from .algorithm import Algorithm, Credit


class Distill(Algorithm):
    """``A_t = −Σ_{i≥t} γ^{i−t} log π(a_i|s_i)/π_T(a_i|s_i)``: the reverse KL to a teacher π_T, token by token.

    On the policy's own episodes (GKD, Agarwal et al., arXiv 2306.13649). With γ = 0, the expected gradient is that of
    the mean over tokens of KL(π ‖ π_T) in the states that the policy visits; with γ = 1, of the KL between whole
    trajectories, which includes how an action changes the states that follow (MiniLLM, Gu et al., arXiv 2306.08543,
    eq. 2). ``outcome`` adds the group-relative advantage of the task's return (as DGPO, teacher guidance in RL).
    """

    paper: ClassVar[Mapping[str, Any]] = {"normalizer": "token_mean"}

    name: Literal["distill"] = "distill"
    """On-policy distillation."""
    teacher: str
    """The teacher's model folder. It must have the policy's tokenizer, since it grades the very same ids."""
    gamma: float = pydantic.Field(default=0.0, ge=0, le=1)
    """Discount per sampled token of the divergences that follow: 0 grades each token alone."""
    outcome: float = pydantic.Field(default=0.0, ge=0)
    """Weight of the episode's return less its group's mean, as in GRPO; a group of one has none."""

    def frozen(self, penalty: KLConfig) -> KLConfig:
        """Return the teacher in place of the reference of a KL penalty.

        Raises:
            ValueError: there is such a penalty.
        """
        if penalty.coef:
            raise ValueError(
                f"loss.kl.coef = {penalty.coef} is a penalty on the distance from a reference, and distill is one from "
                "its teacher: rows have one such column, so leave loss.kl out"
            )
        return KLConfig(coef=1.0, reference=self.teacher)

    @property
    def credit_level(self) -> Level:
        """Each token, by the teacher."""
        return "token"

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Put the teacher's verdict on each sampled token, whose rows have ``logp_old`` and the teacher's ``logp_ref``.

        Raises:
            UsageError: the teacher gives a sampled token no probability at all.
        """
        tokens = Decisions.of(batch, "token", gamma=1.0)
        verdict_S = (batch.rows.logp_ref - batch.rows.logp_old)[tokens.place_N].double()
        if not torch.isfinite(verdict_S).all():
            raise UsageError(
                f"the teacher {self.teacher} gives a sampled token a log-probability that is not finite: load it in "
                "float32, or take another teacher"
            )
        last_S = torch.ones_like(tokens.episode_S, dtype=torch.bool)
        last_S[:-1] = tokens.episode_S[1:] != tokens.episode_S[:-1]
        advantage_S = backward_sums(verdict_S, torch.where(last_S, 0.0, self.gamma))
        if self.outcome:
            advantage_S = advantage_S + self.outcome * centered(batch.return_E, batch.group_E)[tokens.episode_S]
        return Credit(batch.rows.with_token_advantage(tokens.spread(advantage_S, len(batch.rows))))
