"""Values of tokens from demonstrations, and a policy guided by them: ILQL, or Monte-Carlo returns.

Snell et al. (arXiv 2206.11871); both as baselines of LMRL-Gym (arXiv 2311.18232). The policy stays what was cloned;
learnt is how much better each token is than what usually follows, and ``log π_β + β·(Q − V)`` is sampled. Run it with
``turnwise train ilql --config configs/ilql-maze.toml`` or ``python -m turnwise.trainers.value_based env=…``.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Self

import pydantic

from ..agents.value_guided import ActionValues, ValueGuidedModel
from .algorithms.ilql import ILQL
from .algorithms.monte_carlo import MonteCarlo
from .critics.token_learning import TokenLearner
from .critics.token_steps import TokenSteps
from .learning.rows import pack
from .run.interrupts import interruptible
from .run.offline import OfflineConfig, as_said, demonstrations, first_model, fitting, learn_rows, scheduled
from .run.script import script
from .run.session import TrainingRun
from .run.settings import RunResult


class ValueBasedConfig(OfflineConfig):
    """Settings of an offline learner of token values."""

    out: str = "runs/value-based"
    """The run's folder."""
    algorithm: Annotated[ILQL | MonteCarlo, pydantic.Field(discriminator="name")] = ILQL()
    """How values are learnt: ``ilql`` or ``monte_carlo``, with settings of its own."""
    beta: float = pydantic.Field(default=8.0, ge=0)
    """How far values count when the model acts; 0 is π_β (LMRL-Gym: 8 in mazes). It may change on resume."""
    polyak: float = pydantic.Field(default=0.005, gt=0, le=1)
    """Share of the learnt weights that the targets take over at every step (LMRL-Gym: 0.005)."""
    warmup: int = pydantic.Field(default=0, ge=0)
    """Steps at first in which Q is regressed on the demonstrations' returns: bootstrapping then starts from values that
    tell states apart (0 in the paper)."""
    lagged: bool = False
    """Take V of the next state from the targets too: calmer where few episodes reach an end. ILQL does not."""
    cloning: float = pydantic.Field(default=0.0, ge=0)
    """Weight of the likelihood of the demonstrations: with 0, π_β stays the model that was started from."""
    share_backbone: bool = False
    """Let values read, and change, the policy's own transformer; otherwise they have a copy of it (as LMRL-Gym)."""

    @pydantic.model_validator(mode="after")
    def _whole(self) -> Self:
        if self.lora is not None:
            raise ValueError(
                "values of tokens are learnt beside the policy, in a model of their own, which has no adapters: leave "
                "lora out"
            )
        if self.warmup > self.steps:
            raise ValueError(
                f"warmup = {self.warmup} steps of regression on returns are more than all steps = {self.steps}: what "
                f"makes {self.algorithm.name} would never begin; ask for more steps, or a shorter warmup"
            )
        return self


def train(config: ValueBasedConfig) -> RunResult:
    """Learn values to the last step, or until Ctrl-C, which leaves a checkpoint to resume from.

    Raises:
        UsageError: a setting, the demonstrations, the model or the run's folder is not as it must be.
        DivergedError: a loss or gradient was not finite.
        KeyboardInterrupt: after Ctrl-C, once the checkpoint is written.
    """
    with TrainingRun(config, "value_based", may_change=("beta",)) as run:
        return interruptible(_train(config, run))


async def _train(config: ValueBasedConfig, run: TrainingRun) -> RunResult:
    checkpoint = run.begin()
    episodes = await demonstrations(config.demonstrations, run)
    model, tokenizer = run.load(checkpoint.model) if checkpoint else first_model(config, run, episodes)
    online, model = guide(config, model)
    optimizer = scheduled(config)
    async with run.open(model, tokenizer, checkpoint, optimizer=optimizer):
        episodes = as_said(episodes, config.demonstrations, run)
        rows = fitting(pack(episodes), model.config.max_position_embeddings)
        algorithm = config.algorithm
        steps = TokenSteps.of(episodes, rows, gamma=algorithm.gamma, per=algorithm.discount_per)
        for values in (online, model.values):  # what a checkpoint holds comes after, from keep()
            values.heads.start_at(float(steps.tokens(rows).return_N.min()))
        learner = TokenLearner(
            model.policy,
            online,
            model.values,
            algorithm.loss,
            optimizer,
            polyak=config.polyak,
            cloning=config.cloning,
            lagged=config.lagged,
            warmup=config.warmup,
            dump=run.folder.dump,
        )
        run.keep("values", learner)
        return await learn_rows(config, run, rows, lambda batch: learner.step(batch, steps))


def guide(config: ValueBasedConfig, model: Any) -> tuple[ActionValues, ValueGuidedModel]:
    """The values that learn, and a model that samples by their targets, as LMRL-Gym does.

    Args:
        config: of the run.
        model: a policy; of one that is guided already, the values are taken over on resume and forgotten otherwise.
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
