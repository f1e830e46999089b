"""Offline soft-Bellman learning: a policy and its value, from stored episodes, without playing any.

OREO (arXiv 2412.16145), and with ``algorithm.lam`` below 1 λ-returns as in DQO (arXiv 2410.09302). The initial model is
the reference. Run it with ``turnwise train oreo --config configs/oreo-maze.toml`` or
``python -m turnwise.trainers.soft_bellman env=… model=…``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic

from ..config import merge_defaults
from ..rollouts.episode import Episode
from .algorithms.oreo import OREO
from .critics.token_values import ValuesConfig, token_values
from .critics.values import Values
from .learning.batch import Batch
from .learning.groups import Group, grouped
from .learning.kl import KLConfig, reference_metrics
from .learning.learner import Learner
from .learning.normalizers import normalizer
from .learning.objective import Objective
from .learning.reference import Reference
from .learning.rows import pack
from .run.conclusion import RunResult, only_critic
from .run.metrics import Stopwatch
from .run.offline import OfflineConfig, as_said, fitting, places, refuse_long_ends
from .run.run import Run
from .run.settings import Plan
from .run.training import Trainer, train_with
from .script import script

OBJECTIVE = Objective(kind="reinforce")
"""The policy's loss: its advantages are residuals, so its gradient is that of their squares."""


class SoftBellmanConfig(OfflineConfig):
    """Settings of an offline soft-Bellman learner."""

    out: str = "runs/oreo"
    """The run's folder."""
    model: str
    """The model folder to start from, which is also the reference π_ref: a clone of the episodes, for instance."""
    algorithm: OREO = OREO()
    """The consistency that is learned."""
    values: ValuesConfig = ValuesConfig()
    """The critic."""
    batch: int = pydantic.Field(default=32, ge=1)
    """Episodes per step."""

    @classmethod
    def filled(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the given settings, completed by the paper's."""
        return merge_defaults(OREO.paper, given)

    def plan(self) -> Plan:
        updates = max(self.steps - self.values.warmup, 1)
        return Plan(self.algorithm.name, self.optimizer.until(updates))


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that a step reads and changes.

    Args:
        learner: learner of the policy.
        critic: critic of the states before sampled tokens.
        reference: frozen initial model.
    """

    learner: Learner
    critic: Values
    reference: Reference


class SoftBellmanTrainer(Trainer[SoftBellmanConfig]):
    """The part of soft-Bellman learners in the training loop: minibatches of whole stored episodes."""

    plays = False

    def __init__(self, config: SoftBellmanConfig, run: Run) -> None:
        super().__init__(config, run)
        self.episodes = as_said(run.start.demonstrations, config.demonstrations, run)
        fitting(pack(self.episodes), run.model.config.max_position_embeddings)
        shared: dict[str, Any] = {"seed": config.seed, "dump": run.folder.dump, "scorer": run.learner.scorer}
        critic = token_values(config.values, run.model, run.start.tokenizer, **shared)
        refuse_long_ends(self.episodes, critic.context)
        run.state.keep("critic", critic)
        reference = run.reference(KLConfig(coef=config.algorithm.beta), config.model)
        assert reference is not None, "beta is positive"
        self.parts = Parts(run.learner, critic, reference)
        self.note = only_critic(config.steps, config.values.warmup)

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> Mapping[str, float]:
        chosen = places(len(self.episodes), self.config.batch, step=self.run.step, seed=self.config.seed)
        return iterate(self.config, self.parts, [self.episodes[place] for place in chosen], version=self.run.step)


def iterate(config: SoftBellmanConfig, parts: Parts, episodes: Sequence[Episode], *, version: int) -> dict[str, float]:
    """Make one update of the policy and one fit of the critic, both from the same residuals.

    Args:
        config: settings of the run.
        parts: learner, critic and reference; the learner rests while the critic warms up.
        episodes: stored episodes with token ids.
        version: number of steps so far.

    Returns:
        Metrics of both; ``residual`` is the root of the mean squared residual over tokens.
    """
    batch = Batch.of(grouped(episodes))
    rows = parts.reference.scored(parts.learner.recompute_old(batch.rows))
    credit = config.algorithm.credit(batch.with_rows(rows), parts.critic)
    rows = credit.rows.with_weight(normalizer(credit.rows, "token_mean"))
    metrics = reference_metrics(rows)
    if rows.tokens:
        metrics["residual"] = float(rows.advantage[rows.mask].double().square().mean().sqrt())
    if version >= config.values.warmup:
        metrics |= parts.learner.step(rows, OBJECTIVE, version=version).metrics
    if credit.target_T is not None:
        metrics |= parts.critic.fit(rows, credit.target_T)
    return metrics


def train(config: SoftBellmanConfig) -> RunResult:
    """Learn to the last step: see ``train_with``."""
    return train_with(SoftBellmanTrainer, config)


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.soft_bellman``."""
    return script(SoftBellmanConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
