"""A model of preferences between the trajectories of a group, which is itself a language model: an implicit reward.

Trajectory-level DPO (Rafailov et al., arXiv 2305.18290; as a process reward, arXiv 2509.19199). The loss is the mean of
``−log σ(β (ℓ_i − ℓ_j))`` over the pairs of a group with ``R_i > R_j``, where ``ℓ`` is the sum of ``log π_φ/π_old`` over
the sampled tokens of a trajectory. Its gradient is ``Σ_i g_i ∇ Σ_t log π_φ(a_t)`` with ``g_i = ∂loss/∂ℓ_i``. One pass
finds all g, and cloning with the weights −g makes the exact step, in micro-batches of any size.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import UsageError
from ..learning.groups import ROUNDING
from ..learning.learner import Learner, OptimizerConfig
from ..learning.rates import refuse_high_rate
from ..learning.rows import Rows


class Preferences:
    """π_φ, with the interface of ``Values``: its values are log-probabilities, and its targets are returns.

    Args:
        learner: learner of π_φ, a model of its own.
        beta: β.
        epochs: updates per ``fit``.
    """

    def __init__(self, learner: Learner, *, beta: float, epochs: int = 1) -> None:
        self.learner, self.beta, self.epochs = learner, beta, epochs

    def values(self, rows: Rows) -> Tensor:
        """Return log π_φ of each sampled token, 0 on context, ``[T]`` on the CPU."""
        return self.learner.logprobs(rows)

    def final(self, prompts: Sequence[tuple[int, ...]]) -> Tensor:
        """Return 0 for each prompt: preferences value attempts, not states."""
        return torch.zeros(len(prompts))

    def fit(self, rows: Rows, target_T: Tensor) -> dict[str, float]:
        """Make updates on all pairs of unequal returns within the groups.

        Args:
            rows: rows with ``logp_old``.
            target_T: return of its episode at each sampled token, ``[T]``.

        Raises:
            DivergedError: the loss or the gradient is not finite.
        """
        metrics: dict[str, float] = {}
        for _ in range(self.epochs):
            weight_T, metrics = preference_weights(rows, self.values(rows), target_T, self.beta)
            if weight_T.any():
                found = self.learner.clone(rows.with_weight(weight_T)).metrics
                metrics |= {"preference_grad_norm": found["grad_norm"]}
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return the model's weights and the state of its learner."""
        return {"model": self.learner.model.state_dict(), "learner": self.learner.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.learner.model.load_state_dict(state["model"])
        self.learner.load_state_dict(state["learner"])


def preferences(policy: Learner, *, lr: float, beta: float, epochs: int) -> Preferences:
    """Create a model of preferences: a copy of the policy that learns apart, adapters alone if the policy has any.

    Args:
        policy: learner of the policy, whose settings it shares.
        lr: constant learning rate.
        beta: β.
        epochs: updates per step.

    Raises:
        UsageError: several processes share the policy, or the rate would destroy so large a model.
    """
    if policy.world.size > 1:
        raise UsageError("istar learns a second copy of the policy, which is not sharded: start it without torchrun")
    refuse_high_rate("algorithm.lr", lr, policy.trainable, usual="about 1e-6")
    options: OptimizerConfig = policy.options.model_copy(update={"lr": lr, "schedule": "constant", "warmup": 0})
    learner = Learner(copy.deepcopy(policy.model), options, temperature=policy.scorer.temperature, dump=policy.dump)
    return Preferences(learner, beta=beta, epochs=epochs)


def preference_weights(rows: Rows, logp_T: Tensor, target_T: Tensor, beta: float) -> tuple[Tensor, dict[str, float]]:
    """Return the weight −∂loss/∂ℓ of each sampled token, ``[T]``, and metrics of the pairs.

    Args:
        rows: rows with ``logp_old``.
        logp_T: log π_φ of each sampled token, ``[T]``.
        target_T: return of its episode at each sampled token, ``[T]``.
        beta: β.
    """
    mask = rows.mask
    episodes, inverse_N = torch.unique(rows.episode[mask], return_inverse=True)
    ratio_E = torch.zeros(len(episodes), dtype=torch.float64)
    ratio_E = ratio_E.index_add(0, inverse_N, (logp_T - rows.logp_old)[mask].double())
    return_E, group_E = torch.zeros(len(episodes)), torch.zeros(len(episodes), dtype=torch.long)
    return_E[inverse_N], group_E[inverse_N] = target_T[mask].float(), rows.group[mask]
    size_E = return_E.abs()
    rounding_EE = ROUNDING * torch.maximum(size_E[:, None], size_E[None, :])
    better_EE = (return_E[:, None] - return_E[None, :] > rounding_EE) & (group_E[:, None] == group_E[None, :])
    pairs = int(better_EE.sum())
    weight_T = torch.zeros(len(rows))
    if not pairs:
        return weight_T, {"preference_pairs": 0.0}
    margin_EE = beta * (ratio_E[:, None] - ratio_E[None, :])
    pull_EE = torch.where(better_EE, beta * torch.sigmoid(-margin_EE) / pairs, 0.0)
    weight_T[mask] = (pull_EE.sum(1) - pull_EE.sum(0)).float()[inverse_N]
    loss = -torch.nn.functional.logsigmoid(margin_EE[better_EE]).mean()
    right = (margin_EE[better_EE] > 0).double().mean()
    return weight_T, {
        "preference_pairs": float(pairs),
        "preference_loss": float(loss),
        "preference_accuracy": float(right),
    }
