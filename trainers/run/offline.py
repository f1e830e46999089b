"""What scripts that learn from demonstrations share: their settings, the episodes, the first model and the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import pydantic
import torch

from ...agents.nano import NanoConfig, build_model, build_tokenizer
from ...config import beneath
from ...errors import UsageError
from ...rollouts.episode import Episode
from ...rollouts.pool import EnvPool
from ...tasks.rng import Rng
from ..collect.demonstrations import DemonstrationConfig, encoded, filtered, play, stored, texts
from ..collect.sampler import TaskSampler, family_and_tools, held_out, round_seed
from ..learning.learner import OptimizerConfig, Update
from ..learning.normalisers import normaliser
from ..learning.rows import Rows
from .kept_episodes import refuse_keeping
from .metrics import Stopwatch
from .session import TrainingRun
from .settings import RunResult, TrainConfig

NANO_TOKENS = 32
"""The longest action of a model that is built here, unless it is set: the actions of a laptop's games are short."""


class OfflineConfig(TrainConfig):
    """Settings of a script that learns from demonstrations."""

    model: str | None = None
    """The model folder to start from; omitted, a nano model is built."""
    nano: NanoConfig = NanoConfig()
    """The model that is built."""
    demonstrations: DemonstrationConfig = DemonstrationConfig()
    """What is learnt from."""
    checkpoint_every: int = pydantic.Field(default=25, ge=1)
    """Steps between checkpoints."""
    batch: int = pydantic.Field(default=128, ge=1)
    """Rows per step. A row is a whole episode under the context ``full`` and one turn under ``last:1``."""

    @pydantic.model_validator(mode="after")
    def _keeps_none(self) -> Self:
        refuse_keeping(self.keep_episodes, "this algorithm")
        return self

    @classmethod
    def filled(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What was set, and shorter actions for a model that is built."""
        return given if given.get("model") else beneath({"agent": {"max_tokens": NANO_TOKENS}}, given)


async def demonstrations(wanted: DemonstrationConfig, run: TrainingRun) -> list[Episode]:
    """What a run learns from: from the store that is named, or from the run's own folder, played if need be.

    Raises:
        StoreError: the store is not there, or not of this environment or split.
        UsageError: no episode is left.
    """
    config = run.config
    if wanted.store is not None:
        return filtered(stored(wanted.store, config.env, config.split), wanted)
    family, _ = family_and_tools(config.env, config.episodes.env_kwargs)
    held_out(family, config.eval.split, None, config.eval.episodes)  # refused before anything is played
    sampler = TaskSampler(family, split=config.split, levels=config.levels, pool=config.pool, seed=config.seed)
    options = config.episodes.options(seed=round_seed("demonstrations", config.seed))
    async with EnvPool.of(config.env, isolation=options.isolation, env_kwargs=options.env_kwargs) as pool:
        played = await play(pool, sampler.draw(wanted.count), wanted, options, run.folder.demonstrations)
    return filtered(played, wanted)


def first_model(config: OfflineConfig, run: TrainingRun, episodes: Sequence[Episode]) -> tuple[Any, Any]:
    """The model to start from and its tokenizer: the one that is named, or a nano model of the episodes' own words."""
    if config.model is not None:
        return run.load(config.model)
    _, tools = family_and_tools(config.env, config.episodes.env_kwargs)
    corpus = list(texts(episodes, config.agent, tools))
    tokenizer = build_tokenizer(config.nano.tokenizer, corpus, vocab_size=config.nano.vocab_size)
    model: Any = build_model(config.nano, tokenizer, seed=config.seed)
    return model.to(config.device, getattr(torch, config.dtype)), tokenizer


def scheduled(config: OfflineConfig) -> OptimizerConfig:
    """The optimizer's settings, with a ``total`` where none is named: every step is one update."""
    return config.optimizer.until(config.steps)


def as_said(episodes: list[Episode], wanted: DemonstrationConfig, run: TrainingRun) -> list[Episode]:
    """The episodes with ids of the run's own tokenizer: as they were sampled, or encoded as its agent says them."""
    return episodes if wanted.sampled_ids else encoded(episodes, run.agent, run.tools)


def fitting(rows: Rows, context: int) -> Rows:
    """The rows, if there are any and the model can read each of them wholly.

    Raises:
        UsageError: nothing was sampled in the demonstrations, or a row is longer than the model's context.
    """
    if not rows.tokens:
        raise UsageError(
            "the demonstrations hold no sampled token ids: scripted agents leave none; set "
            "demonstrations.sampled_ids=false to write and encode their actions"
        )
    longest = int(torch.unique_consecutive(rows.row, return_counts=True)[1].max())
    if longest > context:
        raise UsageError(
            f"a demonstration makes a row of {longest} tokens, and the model's context holds {context}: it would be "
            "trained where it can never act; use a shorter agent.context (last:K), or a larger nano.context_length"
        )
    return rows


def minibatch(rows: Rows, size: int, *, step: int, seed: int) -> Rows:
    """The rows of one step: a pure function of step and seed, every row once per epoch, in a new order each time."""
    count = int(rows.row.max()) + 1
    size = min(size, count)
    epoch, place = divmod(step, count // size)
    order = list(range(count))
    Rng("bc", seed, epoch).shuffle(order)
    return rows.select(order[place * size : (place + 1) * size], unit="row")


async def learn_rows(config: OfflineConfig, run: TrainingRun, rows: Rows, learn: Callable[[Rows], Update]) -> RunResult:
    """Learn from minibatches of the same rows until the run is over.

    Args:
        config: of the run.
        run: opened.
        rows: all that there is to learn from.
        learn: one update, from rows whose weights make a loss the mean over their tokens.
    """
    await run.evaluate()
    while not run.over:
        clock = Stopwatch()
        with clock("learn"):
            batch = minibatch(rows, config.batch, step=run.step, seed=config.seed)
            update = learn(batch.with_weight(normaliser(batch, "token_mean")))
        run.finish_step()
        run.report({**update.metrics, **clock.metrics(update.metrics["tokens"])}, advance=True)
        run.checkpoint_if_due()
        await run.evaluate()
        await asyncio.sleep(0)  # where Ctrl-C is heard
    return run.finish()
