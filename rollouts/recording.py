"""Runs that are recorded as they proceed, and continue where they stopped."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace

from ..agents.agent import Agent
from ..errors import UsageError
from ..tasks.spec import TaskSpec
from .branching import Strategy, branch_episodes
from .episode import Episode
from .options import RunOptions
from .pool import EnvPool, EnvSource
from .runner import run_episodes
from .stats import RunStats
from .store import EpisodeStore


async def record_episodes(
    env: EnvSource | EnvPool,
    agent: Agent,
    tasks: Iterable[TaskSpec],
    store: EpisodeStore,
    *,
    options: RunOptions | None = None,
    stats: RunStats | None = None,
    redraw: bool = True,
    strategy: Strategy | None = None,
) -> AsyncGenerator[Episode, None]:
    """Run ``run_episodes`` into a store: play episodes that the store lacks, append and yield them.

    Call it again with the same environment, tasks and options after an interruption of any kind, and the store ends
    up with every episode exactly once: ids are a function of run seed and task, not of when an episode was played.
    Episodes that failed for reasons that are not the policy's are played again, and their earlier attempts, failures
    and abandoned actions are counted.

    Args:
        env: as for ``run_episodes``.
        agent: agent that acts.
        tasks: same tasks in the same order as before the interruption.
        store: store that is open for writing; pending episodes are written when this ends, however it ends.
        options: options of the run; ``seed`` and ``group_size`` as before.
        stats: statistics of the episodes that are played now, without existing ones.
        redraw: whether to play again also episodes in which the infrastructure failed after an action of the agent.
        strategy: rule for branching in the middle of episodes (default: whole attempts only); it needs a pool.

    Raises:
        UsageError: a strategy is given without a pool, or with several episodes per task.
    """
    store.discard_unscored(after_action=redraw)
    if strategy is None:
        played = run_episodes(env, agent, tasks, options=options, skip=store.ids(), stats=stats)
    else:
        options = options or RunOptions()
        if not isinstance(env, EnvPool) or options.group_size > 1:  # part of a tree could not be continued
            raise UsageError("branching episodes are recorded from a pool, one per task: set group_size = 1")
        played = branch_episodes(env, agent, tasks, strategy=strategy, options=options, skip=store.ids(), stats=stats)
    try:
        async with aclosing(played) as episodes:
            async for episode in episodes:
                before = store.discarded.pop(episode.episode_id, None)
                episode = episode if before is None else counting(episode, before)
                store.append(episode)
                yield episode
    finally:
        store.flush()


def counting(episode: Episode, before: Episode) -> Episode:
    """Return an episode with the counts of an earlier attempt at it, which failed and was discarded.

    The agent sampled again if the two differ in an action that both have. An agent that repeats its actions (a scripted
    one, or a policy with seeds) draws nothing again after an outage.
    """
    actions = zip(before.turns, episode.turns, strict=False)
    again = any(old.action != new.action or old.action_ids != new.action_ids for old, new in actions)
    return replace(
        episode,
        attempts=before.attempts + episode.attempts,
        after_action=before.after_action + episode.after_action,
        redrawn=before.redrawn + episode.redrawn + again,
    )
