"""ARPO: GRPO over a tree of attempts, which branch where the policy hesitates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch

from ..critics.values import Values
from ..learning.advantages import Scale, centered
from ..learning.batch import Batch
from ..learning.loss import Level
from .algorithm import Algorithm, Credit
from .trees import action_U, copies_U


class ARPO(Algorithm):
    """``A_i = (R_i − R̄) / std`` over the leaves of a task's tree (Dong et al., arXiv 2507.19849, section 3.2).

    A leaf is an episode, and the baseline is the mean over all leaves. Tokens that only one leaf has get its advantage.
    The paper has two rules for tokens that leaves share. *Soft*, its choice: each leaf's copy gets that leaf's
    advantage, as if nothing were shared, and their sum matters in the gradient of the first update. *Hard*: all copies
    get the mean advantage of the leaves that share them. The two differ where a ratio is clipped, and in the weight of
    leaves of different lengths.

    With either rule a shared token counts once here, by an equal part in each leaf: the script's setting
    ``shared_token_weight`` is ``"split"``. In the paper it counts as often as it is repeated (``"full"``).
    """

    paper: ClassVar[Mapping[str, Any]] = {
        "normalizer": "traj_mean",
        "group_size": 16,
        "branching": {"strategy": "entropy"},
    }
    smallest_group: ClassVar[int] = 2
    strategy: ClassVar[str | None] = "entropy"

    name: Literal["arpo"] = "arpo"
    """Agentic reinforced policy optimization."""
    advantage: Literal["soft", "hard"] = "soft"
    """Advantage of a token that several episodes share: each episode's own on its copy (``soft``), or the mean over
    these episodes on all copies (``hard``)."""
    std: Scale = "none"
    """Divisor of advantages: ``none``, the deviation in the ``group`` (the paper), or in the ``batch``."""

    @property
    def credit_level(self) -> Level:
        """Whole leaves, or turns if shared ones have the mean of several leaves."""
        return "turn" if self.advantage == "hard" else "trajectory"

    def credit(self, batch: Batch, values: Values | None) -> Credit:
        """Put the advantage of each leaf on its tokens, or the mean of several leaves on those that they share."""
        leaf_U = centered(batch.return_E, batch.group_E, scale=self.std)[batch.episode_U]
        if self.advantage == "hard" and leaf_U.numel():
            actions = action_U(batch)
            sums = torch.zeros(int(actions.max()) + 1, dtype=torch.float64).index_add_(0, actions, leaf_U.double())
            leaf_U = (sums[actions] / copies_U(batch)).to(leaf_U.dtype)
        return Credit(batch.rows.with_turn_advantage(leaf_U))
