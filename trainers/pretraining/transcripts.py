"""Transcripts: episodes of scripted agents, written as the conversations that a language model would read and write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import filterfalse, islice
from pathlib import Path

from ...agents.parsers import parser_for, text_of
from ...agents.scripted import MixedAgent
from ...errors import StoreError, UsageError
from ...inference.nano import ROLES, STOP
from ...rollouts.demonstrations import demonstration_tasks
from ...rollouts.episode import Episode
from ...rollouts.runner import run
from ...tasks.spec import Split
from ...tasks.text.held_out import hides_held_out_entity
from ..collect.sampler import family_and_tools
from .settings import TranscriptConfig

SHARD = 250
"""Episodes of one file, which is written whole or not at all."""


def files(config: TranscriptConfig, split: Split, count: int, folder: Path) -> list[tuple[Path, int]]:
    """Return the files of an environment's transcripts, each with its number of episodes.

    The name of a smaller file has its size, so that a run that is resumed for more episodes does not read it instead.
    """
    name = re.sub(r"\W+", "-", config.env).strip("-").lower()
    sizes = [min(SHARD, count - first) for first in range(0, count, SHARD)]
    return [
        (folder / f"{name}-{split}-{number:04d}{'' if size == SHARD else f'-{size}'}.json", size)
        for number, size in enumerate(sizes)
    ]


def has_split(config: TranscriptConfig, split: Split) -> bool:
    """Whether the tasks of an environment include a split; a published game with one fixed set of tasks has no other.

    Raises:
        UsageError: there is no such environment, or it is a file.
    """
    if config.env.endswith(".py"):
        raise UsageError(
            f"text.episodes takes ids of installed environments, not files: install the package of {config.env} "
            "(`turnwise new` makes one), and name the id that it registers"
        )
    return split in family_and_tools(config.env, config.env_kwargs)[0].splits


def write_transcripts(
    config: TranscriptConfig, split: Split, count: int, seed: int, folder: Path, done: Callable[[], None]
) -> list[str]:
    """Return the transcripts of an environment, and play those that ``folder`` does not have yet.

    Args:
        config: environment and players.
        split: split of the tasks.
        count: number of episodes.
        seed: seed of the tasks and of the play.
        folder: folder of the files.
        done: called after each file.

    Raises:
        UsageError: there is no such environment, split or level, or no episode could be played to its end.
        StoreError: a file cannot be read.
    """
    texts: list[str] = []
    for number, (path, size) in enumerate(files(config, split, count, folder)):
        if not path.exists():
            found = _played(config, split, number, size, seed)
            partial = path.with_suffix(".part")
            partial.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
            partial.replace(path)
        try:
            texts += json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise StoreError(f"{path} cannot be read ({error}); remove it to play its episodes again") from None
        done()
    return texts


def _played(config: TranscriptConfig, split: Split, number: int, size: int, seed: int) -> list[str]:
    tasks = demonstration_tasks(config.env, split, config.levels or (), seed, config.env_kwargs)
    shown = filterfalse(hides_held_out_entity, tasks)
    mine = list(islice(shown, number * SHARD, number * SHARD + size))
    episodes = run(
        config.env, MixedAgent(config.skills), mine, seed=seed, concurrency=8, env_kwargs=dict(config.env_kwargs)
    )
    _, tools = family_and_tools(config.env, config.env_kwargs)
    parser = parser_for(config.parser, [tool.to_json() for tool in tools])
    usable = [episode for episode in episodes if episode.trainable]
    if not usable:
        raise UsageError(
            f"none of {len(episodes)} episodes of {config.env} could be played to its end (the first: "
            f"{episodes[0].error}); fix that, or leave the environment out of text.episodes"
        )
    return ["".join(_spoken(episode, lambda turn: text_of(turn, parser))) for episode in usable]


def _spoken(episode: Episode, written: Callable[..., str]) -> Iterator[str]:
    """Yield the parts of a conversation as the chat template of nano models writes them."""
    for turn in episode.turns:
        for message in turn.observation.messages:
            yield f"{ROLES.get(message.role, ROLES['user'])}{message.text}"
        yield f"{ROLES['assistant']}{written(turn.action)}{STOP}"
    if episode.final_observation is not None:
        for message in episode.final_observation.messages:
            yield f"{ROLES.get(message.role, ROLES['user'])}{message.text}"
