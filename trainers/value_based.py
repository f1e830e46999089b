"""Values of tokens from demonstrations, and a policy guided by them: ILQL, or Monte-Carlo returns.

Snell et al. (arXiv 2206.11871); both as baselines of LMRL-Gym (arXiv 2311.18232). The cloned policy π_β stays fixed.
The learner estimates how much better each token is than the usual one, and samples ``log π_β + β·(Q − V)``. Run it with
``turnwise train ilql --config configs/ilql-maze.toml`` or ``python -m turnwise.trainers.value_based env=…``.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pydantic

from ..inference.value_guided import ActionValues, ValueGuidedModel
from .algorithms.ilql import ILQL
from .algorithms.token_value import TokenValueAlgorithm
from .critics.token_learning import TokenLearner
from .critics.token_steps import TokenSteps
from .learning.advantages import context_of
from .learning.learner import Update
from .learning.rows import Rows
from .registry import one_of, rules
from .run.conclusion import RunResult
from .run.may_change import MAY_CHANGE
from .run.model_files import ModelFiles, Start
from .run.offline import OfflineConfig, OfflineTrainer, as_said, refuse_long_ends
from .run.run import Run
from .run.settings import Plan
from .run.training import train_with
from .script import script

if TYPE_CHECKING:
    AnyRule = TokenValueAlgorithm
else:
    AnyRule = one_of(rules("value_based"))


class ValueBasedConfig(OfflineConfig):
    """Settings of an offline learner of token values."""

    out: str = "runs/value-based"
    """The run's folder."""
    algorithm: AnyRule = ILQL()
    """Rule for learning values: ``ilql`` or ``monte_carlo``, with settings of its own."""
    beta: float = pydantic.Field(default=8.0, ge=0)
    """Weight of values when the model acts; 0 is π_β (LMRL-Gym: 8 in mazes). It may change on resume."""
    polyak: float = pydantic.Field(default=0.005, gt=0, le=1)
    """Share of the learned weights that the targets take over at every step (LMRL-Gym: 0.005)."""
    warmup: int = pydantic.Field(default=0, ge=0)
    """First steps, in which Q is regressed on the demonstrations' returns. Bootstrapping then starts from values that
    tell states apart (0 in the paper)."""
    lagged: bool = False
    """Take V of the next state from the targets too: more stable where few episodes reach an end. ILQL does not."""
    cloning: float = pydantic.Field(default=0.0, ge=0)
    """Weight of the likelihood of the demonstrations; with 0, π_β stays the initial model."""
    share_backbone: bool = False
    """Let values read, and change, the policy's own transformer; otherwise they use a copy of it (as LMRL-Gym)."""

    def plan(self) -> Plan:
        return Plan("value_based", self.optimizer.until(self.steps), may_change=(*MAY_CHANGE, "beta"))

    async def start(self, files: ModelFiles, resumed: Path | None) -> Start:
        start = await super().start(files, resumed)
        online, model = guide(self, start.model)
        return replace(start, model=model, values=online)

    @pydantic.model_validator(mode="after")
    def _whole(self) -> Self:
        if self.lora is not None:
            raise ValueError("token values are learned in a model of their own, which has no adapters: leave lora out")
        if self.warmup > self.steps:
            raise ValueError(
                f"warmup = {self.warmup} steps of regression on returns are more than all steps = {self.steps}: what "
                f"makes {self.algorithm.name} would never begin; ask for more steps, or a shorter warmup"
            )
        return self


class ValueTrainer(OfflineTrainer[ValueBasedConfig]):
    """A value learner's part in the training loop: values of tokens, whose targets guide the policy."""

    def __init__(self, config: ValueBasedConfig, run: Run) -> None:
        episodes = as_said(run.start.demonstrations, config.demonstrations, run)
        super().__init__(config, run, episodes)
        model, online, algorithm = run.model, run.start.values, config.algorithm
        if algorithm.states:
            refuse_long_ends(episodes, context_of(model.policy))
        self.steps = TokenSteps.of(episodes, self.rows, gamma=algorithm.gamma, per=algorithm.discount_per)
        for values in (online, model.values):  # the state of a checkpoint follows, from keep()
            values.heads.start_at(float(self.steps.tokens(self.rows).return_N.min()))
        self.learner = TokenLearner(
            model.policy,
            online,
            model.values,
            algorithm.loss,
            config.plan().optimizer,
            polyak=config.polyak,
            cloning=config.cloning,
            lagged=config.lagged,
            warmup=config.warmup,
            dump=run.folder.dump,
            meter=run.learner.scorer.meter,
        )
        run.state.keep("values", self.learner)

    def update(self, rows: Rows) -> Update:
        return self.learner.step(rows, self.steps)


def train(config: ValueBasedConfig) -> RunResult:
    """Learn values to the last step: see ``train_with``."""
    return train_with(ValueTrainer, config)


def guide(config: ValueBasedConfig, model: Any) -> tuple[ActionValues, ValueGuidedModel]:
    """Return the values that learn, and a model that samples by their targets, as LMRL-Gym does.

    Args:
        config: settings of the run.
        model: a policy; if it is guided already, its values are kept on resume and discarded otherwise.
    """
    algorithm = config.algorithm
    policy = model.policy if isinstance(model, ValueGuidedModel) else model
    online = ActionValues.of(
        policy,
        critics=algorithm.critics,
        states=algorithm.states,
        share_backbone=config.share_backbone,
        seed=config.seed,
    )
    target = copy.deepcopy(online).requires_grad_(False) if algorithm.states else online
    return online, ValueGuidedModel(policy, target, beta=config.beta).eval()


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.value_based``."""
    return script(ValueBasedConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
