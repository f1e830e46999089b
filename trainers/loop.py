"""LOOP, leave-one-out PPO: K attempts per task, each other's baseline, several clipped epochs, one copy of the model.

Chen et al., "Reinforcement Learning for Long-Horizon Interactive LLM Agents" (arXiv 2502.01600). No critic, no KL
penalty, no division by a standard deviation. Run it with ``turnwise train loop --config configs/loop-maze.toml`` or
``python -m turnwise.trainers.loop --config configs/loop-maze.toml steps=50``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Self

import pydantic
import torch

from ..tasks.rng import Rng
from .collect.async_rollouts import OverlapConfig
from .collect.collect import Collected
from .learning.advantages import beyond_rounding, large_enough, leave_one_out
from .learning.batch import Batch
from .learning.groups import Group
from .learning.learner import Learner
from .learning.learner_records import Observe, observed
from .learning.loss import CorrectionSetting, Level, loop_bounds
from .learning.normalizers import normalizer
from .learning.objective import Objective, correction_for
from .learning.updates import minibatches, parts_of, summary, take_steps
from .run.conclusion import RunResult
from .run.metrics import Stopwatch
from .run.settings import Plan, PolicyConfig, refuse_greedy
from .run.training import Trainer, train_with
from .script import script


class LoopConfig(PolicyConfig):
    """Settings of a LOOP run. The defaults suit a nano model on a CPU; the paper's are given where they differ."""

    renamed: ClassVar[Mapping[str, str]] = {"k": "group_size", "tasks": "tasks_per_step", "level": "ratio_level"}
    cures: ClassVar[Mapping[str, str]] = {
        **PolicyConfig.cures,
        "branching": "loop plays whole attempts only; `turnwise train grpo` can branch",
    }

    out: str = "runs/loop"
    """The run's folder."""
    tasks_per_step: int = pydantic.Field(default=12, ge=1)
    """Tasks per step (paper: 40)."""
    group_size: int = pydantic.Field(default=6, ge=2)
    """Attempts per task."""
    ratio_level: Level = "token"
    """Unit of an importance ratio: ``token``, ``turn`` or ``trajectory``."""
    epsilon: float = pydantic.Field(default=0.1, gt=0)
    """Ratios are clipped to [1/(1+ε), 1+ε]."""
    dual_clip: float | None = pydantic.Field(default=3.0, gt=1)
    """Largest ratio with a gradient where the advantage is negative, so that no long turn that became likelier owns an
    update (paper: none)."""
    epochs: int = pydantic.Field(default=2, ge=1)
    """Passes over each step's episodes."""
    minibatch: int = pydantic.Field(default=32, ge=1)
    """Episodes per optimizer step; also the loss's constant denominator, even if filters drop some."""
    min_advantage: float = pydantic.Field(default=0.01, ge=0)
    """Smallest size of an advantage, as a share of the batch's largest; episodes below it are not trained on. (The
    paper's code has 0.01 of a reward between 0 and 1.)"""
    max_kl: float | None = pydantic.Field(default=20.0, gt=0)
    """KL from the policy at the start of the step, summed over an episode, at which the step ends early."""
    overlap: OverlapConfig = OverlapConfig()
    """Play episodes while the learner learns."""
    is_mode: CorrectionSetting = "auto"
    """Correction for a sampler that differs from the step's first policy: ``tis`` weights each token by
    π_old/π_sampler, at most ``is_cap`` (the decoupled objective, AReaL, arXiv 2505.24298), and ``mis`` drops tokens
    beyond it. ``auto`` is ``tis`` with ``overlap`` or servers, otherwise ``none``."""
    is_cap: float = pydantic.Field(default=2.0, ge=1)
    """Upper bound of that weight."""

    @pydantic.field_validator("is_mode")
    @classmethod
    def _resolved(cls, mode: CorrectionSetting, info: pydantic.ValidationInfo) -> CorrectionSetting:
        return correction_for(mode, info.data)

    @pydantic.model_validator(mode="after")
    def _explores(self) -> Self:
        refuse_greedy(self.agent)
        return self

    def plan(self) -> Plan:
        # Updates that are skipped or aborted do not count: a linear schedule may end above 0, and never too early.
        updates = self.steps * self.epochs * parts_of(self.tasks_per_step * self.group_size, self.minibatch)
        optimizer = self.optimizer.until(updates)
        return Plan("loop", optimizer, self.overlap, many_processes=True, correction=self.is_mode)


class LoopTrainer(Trainer[LoopConfig]):
    """LOOP's part in the training loop: play groups of attempts, learn from them, keep nothing."""

    async def collect(self) -> Collected:
        return await self.run.collect(self.config.tasks_per_step, self.config.group_size)

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
        run = self.run
        step = partial(iterate, self.config, run.learner, groups, version=run.step, observe=run.observe)
        return await run.learn(step)


def train(config: LoopConfig) -> RunResult:
    """Run LOOP to its last step: see ``train_with``."""
    return train_with(LoopTrainer, config)


def iterate(
    config: LoopConfig, learner: Learner, groups: Sequence[Group], *, version: int, observe: Observe | None = None
) -> dict[str, float]:
    """Run one iteration on collected groups: the algorithm itself.

    Args:
        config: settings of the run.
        learner: learner to update.
        groups: K scored episodes per task, less those that the infrastructure lost.
        version: policy version that sampled them, which also seeds the shuffle.
        observe: function that receives the episodes, their advantages and clipped tokens after the last update.

    Returns:
        Means over the updates (maxima for names that end in ``_max``), and counts.
    """
    batch = Batch.of(groups)
    advantage_E = leave_one_out(batch.return_E, batch.group_E)
    rows = learner.recompute_old(batch.rows.with_advantage(advantage_E))
    # A constant denominator: neither a filtered episode nor a lost one changes the weight of the others.
    rows = rows.with_weight(normalizer(rows, "traj_mean", denominator=config.minibatch))
    objective = Objective(
        config.ratio_level,
        loop_bounds(config.epsilon),
        is_mode=correction_for(config.is_mode, {}),
        is_cap=config.is_cap,
        max_kl=config.max_kl,
        dual_clip=config.dual_clip,
    )
    kept_E = large_enough(advantage_E, config.min_advantage) & beyond_rounding(advantage_E, batch.return_E)
    shuffles = (Rng("loop", config.seed, version, epoch) for epoch in range(config.epochs))
    parts = (part for rng in shuffles for part in minibatches(len(advantage_E), config.minibatch, rng))
    chosen = (rows.select(i for i in part if kept_E[i]) for part in parts)
    with observed(observe, batch.episodes, rows) as clips:
        updates = take_steps(learner, chosen, objective, version=version, clips=clips)
    return summary(updates) | {
        "filtered": float((~kept_E).float().mean()) if kept_E.numel() else 0.0,
        "rows": float(torch.unique(rows.row).numel()),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.loop``."""
    return script(LoopConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
