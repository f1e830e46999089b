"""Search self-play: one policy writes questions from its own searches, and learns from answering them.

After Search Self-play (arXiv 2510.18821). Given an answer, the *proposer* searches, reads, and writes a question for
it. A *reader* has to answer the question from the pages that the proposer read, mixed with others, which verifies the
answer without human labels. A *solver* then searches for itself, several times. If a verified question is solved at
least once, its proposer earns the share of failed attempts, and the solver earns its success. Both learn by LOOP.

Run it with ``turnwise train self-play --config configs/self-play-search.toml``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import pydantic

from ..envs.registry import find
from .collect.proposals import Round, SelfPlay
from .collect.sampler import round_seed
from .learning.groups import Group
from .learning.updates import parts_of
from .loop import LoopConfig, iterate
from .run.conclusion import RunResult
from .run.metrics import Stopwatch
from .run.run import Run
from .run.settings import Plan
from .run.training import Trainer, train_with
from .script import script


class SelfPlayConfig(LoopConfig):
    """Settings of search self-play: those of LOOP, and how to play a round."""

    env: str = "turnwise/SearchTags-v1"
    """The solver's environment; the proposer and the reader act as it does, by tools or by tags."""
    out: str = "runs/self-play"
    """The run's folder."""
    tasks_per_step: int = pydantic.Field(default=8, ge=1)
    """Answers per step to propose questions for."""
    proposals: int = pydantic.Field(default=4, ge=2)
    """Attempts of the proposer at every answer."""
    group_size: int = pydantic.Field(default=4, ge=2)
    """Attempts of the solver at every verified question."""
    readings: int = pydantic.Field(default=1, ge=1)
    """Attempts of the reader at every question; all must be right, or it does not count."""
    others: int = pydantic.Field(default=4, ge=0, le=100)
    """Number of other pages that the reader sees among the relevant ones."""

    grammar: bool = False
    """Accept only questions in the wordings of the fictional wiki that its pages answer in one way, as an exact reader
    of both decides."""

    @pydantic.model_validator(mode="after")
    def _plays_itself(self) -> Self:
        if self.overlap.enabled:
            raise ValueError("self-play has rounds that wait for one another: overlap cannot be enabled")
        if self.curriculum is not None:
            raise ValueError("self-play makes its own tasks as hard as the solver needs them: leave curriculum out")
        return self

    def plan(self) -> Plan:
        episodes = self.tasks_per_step * self.proposals * (1 + self.group_size)  # if every question is verified
        updates = self.steps * self.epochs * parts_of(episodes, self.minibatch)
        optimizer = self.optimizer.until(updates)
        family = _game(self).family
        return Plan("self-play", optimizer, family=family, many_processes=True, correction=self.is_mode)


class SelfPlayTrainer(Trainer[SelfPlayConfig]):
    """Self-play's part in the training loop: a round of questions and answers, of which LOOP learns both sides."""

    def __init__(self, config: SelfPlayConfig, run: Run) -> None:
        super().__init__(config, run)
        self.game = _game(config)

    async def collect(self) -> Round:
        config, run = self.config, self.run
        options = config.episodes.options(seed=round_seed("train", config.seed, run.step))
        return run.record(await self.game.round(run.agent, run.sampler.peek(config.tasks_per_step), options))

    async def aclose(self) -> None:
        await self.game.aclose()

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> dict[str, float]:
        run = self.run
        step = partial(iterate, self.config, run.learner, groups, version=run.step, observe=run.observe)
        return await run.learn(step)


def train(config: SelfPlayConfig) -> RunResult:
    """Run self-play to its last step: see ``train_with``. A round that Ctrl-C interrupted starts again."""
    return train_with(SelfPlayTrainer, config)


def _game(config: SelfPlayConfig) -> SelfPlay:
    kwargs: dict[str, Any] = {**find(config.env).kwargs, **config.episodes.env_kwargs}
    sizes = (config.proposals, config.group_size, config.readings, config.others)
    return SelfPlay(config.env, kwargs, *sizes, grammar=config.grammar)


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.self_play``."""
    return script(SelfPlayConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
