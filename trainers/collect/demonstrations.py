"""Demonstrations: played by scripted agents or taken from a store, filtered, and encoded as a model would say them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydantic

from ...agents.agent import CHAT_API
from ...agents.chat import ChatAgent
from ...agents.parsers import parser_for, text_of
from ...agents.scripted import MixedAgent
from ...agents.settings import AgentSettings
from ...config import Config
from ...envs.tools import Tool
from ...errors import StoreError, UsageError
from ...rollouts.episode import Episode, Turn
from ...rollouts.options import RunOptions
from ...rollouts.pool import EnvPool
from ...rollouts.recording import record_episodes
from ...rollouts.store import EpisodeStore, load_episodes
from ...tasks.rng import stable_hash
from ...tasks.spec import Split, TaskSpec
from ..learning.advantages import bootstraps


class DemonstrationConfig(Config):
    """Source of demonstrations, and the filters on them."""

    store: str | None = None
    """A folder of stored episodes (default: play new demonstrations)."""
    count: int = pydantic.Field(default=300, ge=1)
    """Number of demonstrations to play."""
    skills: list[float] = pydantic.Field(default=[1.0])
    """Each episode draws one of these: the share of its turns that the oracle takes; the others are random."""
    weights: list[float] | None = None
    """Relative frequency of each skill (default: equal)."""
    habits: float = pydantic.Field(default=0.0, ge=0, le=1)
    """Share of messages at which all demonstrators make the same mistake whenever they read them."""
    only_success: bool = False
    """Keep solved episodes only (filtered behavior cloning)."""
    top: float = pydantic.Field(default=1.0, gt=0, le=1)
    """Keep this share of the episodes, the highest returns first."""
    sampled_ids: bool = False
    """Train on the token ids stored with the episodes, as sampled, which needs episodes of this very tokenizer.
    Otherwise actions are written and encoded again."""


async def play(
    pool: EnvPool, tasks: Sequence[TaskSpec], config: DemonstrationConfig, options: RunOptions, folder: Path
) -> list[Episode]:
    """Play demonstrations of mixed skill, one per task; those that ``folder`` has already are not played again.

    Raises:
        StoreError: the folder has demonstrations by other settings, or is not a writable store.
        UsageError: the skills, their weights or the habits are wrong; the message names the setting.
    """
    try:
        agent = MixedAgent(config.skills, config.weights, config.habits)
    except UsageError as error:
        raise UsageError(f"demonstrations.{error}") from None
    run = {
        "env": pool.env_id,
        "env_kwargs": dict(pool.env_kwargs),
        "seed": options.seed,
        "skills": list(config.skills),
        "weights": config.weights,
        "tasks": stable_hash(*(task.digest for task in tasks)).hex()[:16],
    }
    if config.habits:  # left out if 0, so that earlier stores can grow
        run["habits"] = config.habits
    with _opened(folder, run) as store:
        async with aclosing(record_episodes(pool, agent, tasks, store, options=options)) as episodes:
            async for _ in episodes:
                pass
    # The order in which they finished is not reproducible, but the order of their ids is.
    return sorted(load_episodes(folder), key=lambda episode: episode.episode_id)


def _opened(folder: Path, run: Mapping[str, Any]) -> EpisodeStore:
    try:
        return EpisodeStore(folder, run=run)
    except StoreError as error:
        EpisodeStore(folder).close()  # any other problem with the folder is raised unchanged
        raise StoreError(f"{error}; remove {folder} to play the demonstrations again") from None


def filtered(episodes: Iterable[Episode], config: DemonstrationConfig) -> list[Episode]:
    """Return the episodes played to an end that pass the filters, best returns first where ``top`` cuts.

    Raises:
        UsageError: none is left; the message says how many there were at each stage.
    """
    everything = list(episodes)
    usable = [episode for episode in everything if episode.trainable]
    solved = [episode for episode in usable if episode.success] if config.only_success else usable
    best = sorted(solved, key=lambda episode: -episode.total_reward)[: max(1, round(config.top * len(solved)))]
    if not best:
        lost = next((f" (the first that was not: {e.error})" for e in everything if not e.trainable and e.error), "")
        more = "play more (demonstrations.count), with more skill (demonstrations.skills)"
        cure = more if config.store is None else "name another store (demonstrations.store)"
        raise UsageError(
            f"no demonstration is left: of {len(everything)} episodes {len(usable)} were played to an end{lost} and "
            f"{len(solved)} passed only_success={str(config.only_success).lower()}; {cure}, or filter less"
        )
    kept = {episode.episode_id for episode in best}
    return [episode for episode in usable if episode.episode_id in kept]


def stored(path: str, env_id: str, split: Split) -> list[Episode]:
    """Load the episodes of a store, which must be of one environment, and of tasks that may be trained on.

    Raises:
        StoreError: there is no such store, or it has episodes of another environment or split.
    """
    episodes = load_episodes(path)
    others = sorted({episode.env_id for episode in episodes} - {env_id})
    if others:
        raise StoreError(f"{path} holds episodes of {', '.join(others)}, not only of {env_id}")
    held_out = sorted({str(episode.task.split) for episode in episodes} - {str(split)})
    if held_out:
        raise StoreError(
            f"{path} holds episodes of split {', '.join(held_out)}, and this run trains on {split!s}: cloning them "
            "would train on held-out tasks; name a store of that split, or set split= if this is meant"
        )
    return episodes


def encoded(episodes: Iterable[Episode], agent: ChatAgent, tools: Sequence[Tool]) -> list[Episode]:
    """Return the same episodes with the ids that ``agent`` would have read and sampled."""
    return [_encoded(episode, agent, tools) for episode in episodes]


def _encoded(episode: Episode, agent: ChatAgent, tools: Sequence[Tool]) -> Episode:
    said = [(turn.observation, turn.action) for turn in episode.turns]
    unread = bootstraps(episode) and episode.final_observation is not None and bool(said)
    if unread:  # the state that a limit cut off is encoded as if one more action followed
        assert episode.final_observation is not None
        said.append((episode.final_observation, said[-1][1]))
    decisions = agent.encode_demonstration(said, tools=tools)
    final_prompt = decisions.pop().prompt_ids if unread else ()
    turns = (
        replace(
            turn,
            prompt_ids=decision.prompt_ids,
            action_ids=decision.action_ids,
            logprobs=decision.logprobs,
            versions=decision.versions,
            finish=decision.finish,
        )
        for turn, decision in zip(episode.turns, decisions, strict=True)
    )
    return replace(episode, turns=tuple(turns), final_prompt_ids=final_prompt)


def readable(episodes: Iterable[Episode]) -> tuple[list[Episode], int]:
    """Leave out the turns whose action could not be parsed, so that no model learns to write such actions.

    They lose their token ids; where later prompts show their text, it remains there as context.

    Args:
        episodes: episodes with token ids.

    Returns:
        The episodes, and the number of turns left out.

    Raises:
        UsageError: no action could be parsed.
    """
    episodes = list(episodes)
    turns = [turn for episode in episodes for turn in episode.turns]
    unreadable = [turn for turn in turns if turn.action.problem is not None]
    if turns and len(unreadable) == len(turns):
        raise UsageError(
            f"none of the {len(turns)} actions in the demonstrations could be read (the first: "
            f"{unreadable[0].action.problem}); name demonstrations with readable actions"
        )
    return [replace(each, turns=tuple(map(_left_out_if_unreadable, each.turns))) for each in episodes], len(unreadable)


def _left_out_if_unreadable(turn: Turn) -> Turn:
    if turn.action.problem is None:
        return turn
    info = {name: value for name, value in turn.info.items() if name != CHAT_API}  # which requires ids
    return replace(turn, prompt_ids=(), action_ids=(), logprobs=(), versions=(), info=info)


def texts(episodes: Iterable[Episode], agent: AgentSettings, tools: Sequence[Tool]) -> Iterator[str]:
    """Yield every text that a model of these episodes reads or writes, to make a vocabulary."""
    parser = parser_for(agent.parser, [tool.to_json() for tool in tools])
    if agent.system:
        yield agent.system
    if agent.show_tools:
        yield from (json.dumps(tool.to_json()) for tool in tools)
    for episode in episodes:
        for turn in episode.turns:
            yield from (message.text for message in turn.observation.messages)
            yield text_of(turn.action, parser)
        if episode.final_observation is not None:
            yield episode.final_observation.text
