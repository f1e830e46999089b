"""Behaviour cloning: maximise the likelihood of demonstrated actions. With a filter on returns, filtered BC (%BC).

Demonstrations are stored episodes, or played on the fly by scripted agents of mixed skill as LMRL-Gym's datasets were
(arXiv 2311.18232). Without a model to start from, a nano model and its tokenizer are built from them. Run it with
``turnwise train bc --config configs/bc-maze.toml`` or ``python -m turnwise.trainers.behaviour_cloning env=…``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import pydantic
import torch

from ..agents.nano import NanoConfig, build_model, build_tokenizer
from ..errors import UsageError
from ..rollouts.episode import Episode
from ..rollouts.pool import EnvPool
from ..tasks.rng import Rng
from .learning.normalisers import normaliser
from .learning.rows import Rows, pack
from .runs.demonstrations import DemonstrationConfig, encoded, filtered, play, stored, texts
from .runs.metrics import Stopwatch
from .runs.sampler import TaskSampler
from .runs.script import script
from .runs.session import TrainingRun
from .runs.setup import RunResult, TrainConfig, family_and_tools, round_seed


class CloningConfig(TrainConfig):
    """Settings of behaviour cloning."""

    out: str = "runs/bc"
    """The run's folder."""
    model: str | None = None
    """The model folder to start from; omitted, a nano model is built."""
    nano: NanoConfig = NanoConfig()
    """The model that is built."""
    demonstrations: DemonstrationConfig = DemonstrationConfig()
    """What is cloned."""
    checkpoint_every: int = pydantic.Field(default=100, ge=1)
    """Steps between checkpoints."""
    batch: int = pydantic.Field(default=128, ge=1)
    """Rows per step. A row is a whole episode under the context ``full`` and one turn under ``last:1``."""


def train(config: CloningConfig) -> RunResult:
    """Run behaviour cloning to its last step, or until Ctrl-C, which leaves a checkpoint to resume from.

    Raises:
        UsageError: a setting, the demonstrations, the model or the run's folder is not as it must be.
        DivergedError: a loss or gradient was not finite.
        KeyboardInterrupt: after Ctrl-C, once the checkpoint is written.
    """
    with TrainingRun(config, "bc") as run:
        return asyncio.run(_train(config, run))


async def _train(config: CloningConfig, run: TrainingRun) -> RunResult:
    checkpoint = run.begin()
    episodes = await demonstrations(config, run)
    model, tokenizer = run.load(checkpoint.model) if checkpoint else _first_model(config, run, episodes)
    optimizer = config.optimizer
    if optimizer.total is None:
        optimizer = optimizer.model_copy(update={"total": config.steps})
    async with run.open(model, tokenizer, checkpoint, optimizer=optimizer):
        if not config.demonstrations.sampled_ids:
            episodes = encoded(episodes, run.agent, run.tools)
        rows = fitting(pack(episodes), model.config.max_position_embeddings)
        await run.evaluate()
        while run.step < config.steps:
            clock = Stopwatch()
            with clock("learn"):
                batch = minibatch(rows, config.batch, step=run.step, seed=config.seed)
                update = run.learner.clone(batch.with_weight(normaliser(batch, "token_mean")))
            run.finish_step()
            run.report({**update.metrics, **clock.metrics(update.metrics["tokens"])}, advance=True)
            run.checkpoint_if_due()
            await run.evaluate()
            await asyncio.sleep(0)  # where Ctrl-C is heard
        return run.finish()


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


async def demonstrations(config: CloningConfig, run: TrainingRun) -> list[Episode]:
    """What the run clones: from the store that is named, or from the run's own folder, played if need be."""
    wanted = config.demonstrations
    if wanted.store is not None:
        return filtered(stored(wanted.store, config.env, config.split), wanted)
    family, _ = family_and_tools(config.env, config.episodes.env_kwargs)
    sampler = TaskSampler(family, split=config.split, levels=config.levels, pool=config.pool, seed=config.seed)
    options = config.episodes.options(seed=round_seed("demonstrations", config.seed))
    async with EnvPool.of(config.env, isolation=options.isolation, env_kwargs=options.env_kwargs) as pool:
        played = await play(pool, sampler.draw(wanted.count), wanted, options, run.folder.demonstrations)
    return filtered(played, wanted)


def _first_model(config: CloningConfig, run: TrainingRun, episodes: Sequence[Episode]) -> tuple[Any, Any]:
    if config.model is not None:
        return run.load(config.model)
    _, tools = family_and_tools(config.env, config.episodes.env_kwargs)
    corpus = list(texts(episodes, config.agent, tools))
    tokenizer = build_tokenizer(config.nano.tokenizer, corpus, vocab_size=config.nano.vocab_size)
    model: Any = build_model(config.nano, tokenizer, seed=config.seed)
    return model.to(config.device, getattr(torch, config.dtype)), tokenizer


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnwise.trainers.behaviour_cloning``."""
    return script(CloningConfig, train, argv)


if __name__ == "__main__":
    sys.exit(main())
