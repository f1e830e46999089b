"""Search self-play: one policy writes questions from its own searches, and learns from answering them.

After Search Self-play (arXiv 2510.18821). An answer is given; the *proposer* searches, reads, and writes a question for
it. A *reader* has to answer the question from the pages that the proposer read, among some others: so it is known to
have that answer, without a person having said so. A *solver* then searches for itself, several times. A question that
holds and that was solved at least once earns its proposer the share of attempts that failed; the solver earns its
success. Both learn by LOOP.

Run it with ``turnwise train self-play --config configs/self-play-search.toml``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import pydantic

from ..envs.registry import find
from .collect.proposals import SelfPlay
from .collect.sampler import TaskSampler, round_seed
from .learning.learner import OptimizerConfig
from .learning.updates import parts_of
from .loop import LoopConfig, iterate
from .run.interrupts import interruptible
from .run.script import script
from .run.session import TrainingRun
from .run.settings import RunResult


class SelfPlayConfig(LoopConfig):
    """Settings of search self-play; those of LOOP, and how a round is played."""

    env: str = "turnwise/SearchTags-v0"
    """The solver's environment; the proposer and the reader act as it does, by tools or by tags."""
    out: str = "runs/self-play"
    """The run's folder."""
    tasks: int = pydantic.Field(default=8, ge=1)
    """Answers per step for which questions are wanted."""
    proposals: int = pydantic.Field(default=4, ge=2)
    """Attempts of the proposer at every answer."""
    k: int = pydantic.Field(default=4, ge=2)
    """Attempts of the solver at every question that holds."""
    readings: int = pydantic.Field(default=1, ge=1)
    """How often a question must be answered from its pages; every time, or it does not count."""
    others: int = pydantic.Field(default=4, ge=0, le=100)
    """Other pages among which these are."""

    @pydantic.model_validator(mode="after")
    def _plays_itself(self) -> Self:
        if self.overlap.enabled:
            raise ValueError("self-play has rounds that wait for one another: overlap cannot be enabled")
        return self


def train(config: SelfPlayConfig) -> RunResult:
    """Run self-play to its last step, or until Ctrl-C, which leaves a checkpoint to resume from.

    Raises:
        UsageError: a setting, the model or the run's folder is not as it must be.
        DivergedError: a loss or gradient was not finite.
        KeyboardInterrupt: after Ctrl-C, once the checkpoint is written; a round that was being played begins again.
    """
    with TrainingRun(config, "self-play") as run:
        checkpoint = run.begin()
        model, tokenizer = run.load(checkpoint.model if checkpoint else config.model)
        run.open(model, tokenizer, checkpoint, optimizer=scheduled(config))
        return interruptible(_train(config, run))


async def _train(config: SelfPlayConfig, run: TrainingRun) -> RunResult:
    game = _game(config)
    answers = TaskSampler(game.family, split=config.split, levels=config.levels, pool=config.pool, seed=config.seed)
    answers.cursor = run.sampler.cursor
    run.sampler = answers
    async with run, game:
        await run.evaluate()
        while not run.over:
            clock = run.clock()
            with clock("sync"):
                await run.weights.send(run.step)
            with clock("collect"):
                options = config.episodes.options(seed=round_seed("train", config.seed, run.step))
                played = run.record(await game.round(run.agent, answers.peek(config.tasks), options))
            with clock("learn"):
                learnt = await run.learn(partial(iterate, config, run.learner, played.groups, version=run.step))
            run.finish_step(config.tasks)
            metrics = played.metrics() | learnt
            run.report(metrics | clock.metrics(metrics.get("action_tokens", 0.0)), advance=True)
            run.checkpoint_if_due()
            await run.evaluate()
        return run.finish()


def _game(config: SelfPlayConfig) -> SelfPlay:
    kwargs: dict[str, Any] = {**find(config.env).kwargs, **config.episodes.env_kwargs}
    return SelfPlay(config.env, kwargs, config.proposals, config.k, config.readings, config.others)


def scheduled(config: SelfPlayConfig) -> OptimizerConfig:
    """The optimizer's settings, with a ``total`` where none is named: the updates if every question held."""
    episodes = config.tasks * config.proposals * (1 + config.k)
    return config.optimizer.until(config.steps * config.epochs * parts_of(episodes, config.minibatch))


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.self_play``."""
    return script(SelfPlayConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
