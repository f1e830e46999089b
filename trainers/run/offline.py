"""Shared parts of scripts that learn from demonstrations: settings, episodes, the first model, and minibatches."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self, TypeVar

import pydantic
import torch

from ...config import Config, merge_defaults
from ...envs.asked import refuse_missing_oracle
from ...envs.registry import make
from ...errors import UsageError
from ...inference.nano import NanoConfig, build_model, build_tokenizer
from ...logs import tell
from ...rollouts.episode import Episode
from ...rollouts.pool import EnvPool
from ...tasks.rng import Rng
from ..collect.demonstrations import DemonstrationConfig, encoded, filtered, play, stored, texts
from ..collect.sampler import TaskSampler, family_and_tools, held_out, round_seed
from ..learning.advantages import bootstraps
from ..learning.groups import Group
from ..learning.learner import Update
from ..learning.normalizers import normalizer
from ..learning.rows import Rows, pack
from .kept_episodes import refuse_keeping
from .metrics import Stopwatch
from .model_files import ModelFiles, Start
from .run import Run
from .run_folder import DEMONSTRATIONS
from .settings import TrainConfig
from .training import Trainer

LOG = logging.getLogger(__name__)

PLAYING = ("count", "skills", "weights", "habits")
"""Settings of demonstrations that are played."""

NANO_TOKENS = 32
"""The longest action of a model that is built here, by default: the actions of laptop-sized games are short."""

WITHOUT_ORACLE = "write one, name stored episodes (demonstrations.store), or play at random (demonstrations.skills=[0])"
"""Remedy where demonstrations need an oracle that the environment lacks."""


class OfflineConfig(TrainConfig):
    """Settings of a script that learns from demonstrations."""

    model: str | None = None
    """The model folder to start from (default: build a nano model)."""
    nano: NanoConfig = NanoConfig()
    """The nano model to build."""
    demonstrations: DemonstrationConfig = DemonstrationConfig()
    """The demonstrations to learn from."""
    checkpoint_every: int = pydantic.Field(default=25, ge=1)
    """Steps between checkpoints."""
    batch: int = pydantic.Field(default=128, ge=1)
    """Rows per step. A row is a whole episode under the context ``full`` and one turn under ``last:1``."""

    @pydantic.model_validator(mode="after")
    def _keeps_none(self) -> Self:
        refuse_keeping(self.keep_episodes, "this algorithm")
        return self

    async def start(self, files: ModelFiles, resumed: Path | None) -> Start:
        everything = await recorded(self, self.demonstrations)
        episodes = filtered(everything, self.demonstrations)
        origin = resumed if resumed is not None else self.model
        if self.model is not None and resumed is None and self.nano != NanoConfig():
            tell(LOG, "remark", f"nano has no effect: the run starts from model={self.model}, and builds no nano model")
        # Words of the episodes that a filter leaves out, too: learners after this one may need to read and say them.
        played = [episode for episode in everything if episode.trainable]
        model, tokenizer = files.load(origin) if origin is not None else self._built(played)
        return Start(model, tokenizer, episodes)

    def _built(self, episodes: Sequence[Episode]) -> tuple[Any, Any]:
        """Build a nano model, and a tokenizer from the episodes' own words."""
        _, tools = family_and_tools(self.env, self.episodes.env_kwargs)
        corpus = list(texts(episodes, self.agent, tools))
        tokenizer = build_tokenizer(self.nano.tokenizer, corpus, vocab_size=self.nano.vocab_size)
        model: Any = build_model(self.nano, tokenizer, seed=self.seed)
        return model.to(self.device, getattr(torch, self.dtype)), tokenizer

    @classmethod
    def filled(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the given settings; for a model that is built here, also limit actions to ``NANO_TOKENS``."""
        return given if given.get("model") else merge_defaults({"agent": {"max_tokens": NANO_TOKENS}}, given)


S = TypeVar("S", bound=OfflineConfig)


async def demonstrations(config: TrainConfig, wanted: DemonstrationConfig) -> list[Episode]:
    """Return the demonstrations of a run that pass the filters: see ``recorded``.

    Raises:
        StoreError: the store is missing, or not of this environment or split.
        UsageError: the environment has no oracle to play them, or no episode is left.
    """
    return filtered(await recorded(config, wanted), wanted)


async def recorded(config: TrainConfig, wanted: DemonstrationConfig) -> list[Episode]:
    """Return all demonstrations of a run: from the given store, or from the run's own folder, played if necessary.

    Raises:
        StoreError: the store is missing, or not of this environment or split.
        UsageError: the environment has no oracle to play them.
    """
    if wanted.store is not None:
        if ignored := [*_set(wanted, PLAYING, "demonstrations."), *_set(config, ("levels", "max_tasks"))]:
            verb = "has" if len(ignored) == 1 else "have"
            what = "demonstrations.store is stored play, and all of it is read"
            tell(LOG, "remark", f"{' and '.join(ignored)} {verb} no effect on the demonstrations: {what}")
        return stored(wanted.store, config.env, config.split)
    if any(wanted.skills):
        with closing(make(config.env, **config.episodes.env_kwargs)) as env:
            refuse_missing_oracle(env, config.env, WITHOUT_ORACLE)
    family, _ = family_and_tools(config.env, config.episodes.env_kwargs)
    held_out(family, config.eval.split, None, config.eval.episodes)  # refuse before any episode is played
    sampler = TaskSampler(
        family, split=config.split, levels=config.levels, max_tasks=config.max_tasks, seed=config.seed
    )
    options = config.episodes.options(seed=round_seed("demonstrations", config.seed))
    folder = Path(config.out) / DEMONSTRATIONS
    async with EnvPool.of(config.env, isolation=options.isolation, env_kwargs=options.env_kwargs) as pool:
        return await play(pool, sampler.draw(wanted.count), wanted, options, folder)


def _set(config: Config, names: Sequence[str], prefix: str = "") -> list[str]:
    """Return those of the settings that differ from their defaults."""
    return [f"{prefix}{name}" for name in names if getattr(config, name) != type(config).model_fields[name].default]


def as_said(episodes: Sequence[Episode], wanted: DemonstrationConfig, run: Run) -> list[Episode]:
    """Return the episodes with ids of the run's own tokenizer: as sampled, or as its agent encodes them."""
    return list(episodes) if wanted.sampled_ids else encoded(episodes, run.agent, run.tools)


def fitting(rows: Rows, context: int) -> Rows:
    """Return the rows, if there are any and the model can read each of them in full.

    Raises:
        UsageError: the demonstrations have no sampled tokens, or a row is longer than the model's context.
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


def refuse_long_ends(episodes: Sequence[Episode], context: int | None) -> None:
    """Refuse demonstrations that a limit cut off in a state which the critic cannot read.

    Args:
        episodes: demonstrations with token ids.
        context: tokens that the critic can read; ``None`` for no limit.

    Raises:
        UsageError: the last state of one is longer.
    """
    for episode in episodes:
        length = len(episode.final_prompt_ids) if bootstraps(episode) else 0
        if context is not None and length > context:
            raise UsageError(
                f"a limit cut off demonstration {episode.episode_id} in a state of {length} tokens, and the context of "
                f"the critic holds {context}. Use a shorter agent.context (last:K), shorter demonstrations "
                "(episodes.env_kwargs.max_turns), or a model with a longer context"
            )


def places(count: int, size: int, *, step: int, seed: int) -> list[int]:
    """Return which of ``count`` items a step learns from: every one once per epoch, in changing order.

    Args:
        count: number of items.
        size: number of items per step; all, if there are fewer.
        step: number of steps so far.
        seed: seed of the orders.
    """
    size = min(size, count)
    epoch, place = divmod(step, count // size)
    order = list(range(count))
    Rng("bc", seed, epoch).shuffle(order)
    return order[place * size : (place + 1) * size]


def minibatch(rows: Rows, size: int, *, step: int, seed: int) -> Rows:
    """Return the rows of one step: a pure function of step and seed."""
    return rows.select(places(int(rows.row.max()) + 1, size, step=step, seed=seed), unit="row")


class OfflineTrainer(Trainer[S]):
    """The part in the training loop of algorithms that learn from minibatches of the same rows.

    Args:
        config: the settings of the script.
        run: an open run.
        episodes: all episodes to learn from, with token ids.
    """

    plays = False

    def __init__(self, config: S, run: Run, episodes: Sequence[Episode]) -> None:
        super().__init__(config, run)
        self.rows = fitting(pack(episodes), run.model.config.max_position_embeddings)

    @abstractmethod
    def update(self, rows: Rows) -> Update:
        """Make one update from rows whose weights make a loss the mean over their tokens."""

    async def learn(self, groups: Sequence[Group], clock: Stopwatch) -> Mapping[str, float]:
        batch = minibatch(self.rows, self.config.batch, step=self.run.step, seed=self.config.seed)
        return self.update(batch.with_weight(normalizer(batch, "token_mean"))).metrics
