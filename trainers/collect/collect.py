"""Collecting groups: K attempts at each task, the scored ones in a fixed order, the failed ones counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from ...agents.agent import Agent
from ...rollouts.branching import Strategy, branch_episodes
from ...rollouts.costs import RolloutCost
from ...rollouts.episode import Episode
from ...rollouts.options import RunOptions
from ...rollouts.pool import EnvPool
from ...rollouts.runner import IndexedTask, group_id, run_episodes
from ...rollouts.stats import RunStats
from ...tasks.spec import TaskSpec
from ..learning.groups import Group, grouped, with_failures
from .preflight import refuse_hopeless


class Experience(Protocol):
    """The data that a step learns from."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups of attempts at one task each."""
        ...

    @property
    def tasks(self) -> int:
        """Number of tasks drawn for it; the data cursor moves by as many when the step is finished."""
        ...

    def metrics(self) -> dict[str, float]:
        """Numbers to log."""
        ...


@dataclass(frozen=True, slots=True)
class NothingPlayed:
    """The experience of a step that plays no episodes."""

    groups: tuple[Group, ...] = ()
    tasks: int = 0

    def metrics(self) -> dict[str, float]:
        """No numbers."""
        return {}


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a round of collection.

    Args:
        groups: one per task, in the order of the tasks; members in the order of their requests.
        stats: counts, failures and the time split.
        cost: cost of all episodes, including unscored ones.
        extra: further numbers to log.
        tasks: number of drawn tasks.
    """

    groups: tuple[Group, ...]
    stats: RunStats
    extra: Mapping[str, float] = field(default_factory=dict)
    cost: RolloutCost = field(default_factory=RolloutCost)
    tasks: int = 0

    @classmethod
    def joined(cls, parts: Sequence[Collected]) -> Collected:
        """Join several rounds into one; further numbers are those of the last."""
        stats = RunStats()
        for part in parts:
            stats.merge(part.stats)
        cost = sum((part.cost for part in parts), RolloutCost())
        groups = tuple(group for part in parts for group in part.groups)
        return cls(groups, stats, parts[-1].extra, cost, sum(part.tasks for part in parts))

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All episodes that were played to an end, in order."""
        return tuple(episode for group in self.groups for episode in group.members)

    def held_out_metrics(self) -> dict[str, float]:
        """Numbers of an evaluation during training; as in any other, episodes that the policy failed count.

        Each of them returns what the worst episode returned, or less if it has less already, as where it is learned
        from. Left out of the mean, a policy that grows out of its context at hard tasks would be the best so far.
        """
        numbers = self.metrics()
        failed = [episode.total_reward for group in self.groups for episode in group.failed]
        if failed and "return" in numbers:
            played = [episode.total_reward for episode in self.episodes]
            lowest = min(played + failed)
            numbers["return"] = (sum(played) + lowest * len(failed)) / (len(played) + len(failed))
        wanted = ("return", "success", "turns", "unscored", "policy_failed")
        found = {f"eval/{name}": numbers[name] for name in wanted if name in numbers}
        return found | {"eval/episodes": numbers["episodes"] + numbers["policy_failed"]}

    def metrics(self) -> dict[str, float]:
        """Numbers to log; failures of the infrastructure are counted and never averaged in."""
        episodes = self.episodes
        infra = sum(group.excluded for group in self.groups)
        policy_failed = sum(group.policy_failed for group in self.groups)
        # With the policy's own failures as members, because learning counts them as members, too.
        whole = with_failures(self.groups)
        numbers = {
            "episodes": float(len(episodes)),
            "unscored": float(infra),
            "policy_failed": float(policy_failed),
            "groups_without_baseline": float(sum(not group.comparable for group in whole)),
            "groups_without_variance": float(sum(not g.differs for g in whole if g.comparable)),
            "retries": float(self.stats.retries),
        }
        if episodes or policy_failed:
            numbers["success"] = sum(episode.success for episode in episodes) / (len(episodes) + policy_failed)
        if episodes:
            turns = sum(len(episode.turns) for episode in episodes)
            numbers |= {
                "return": sum(episode.total_reward for episode in episodes) / len(episodes),
                "turns": turns / len(episodes),
                "action_tokens": float(sum(len(turn.action_ids) for episode in episodes for turn in episode.own_turns)),
                "cut_actions": sum(t.finish == "length" for e in episodes for t in e.turns) / max(turns, 1),
            }
        dropped, kept = self.stats.dropped.mean_seconds, self.stats.kept.mean_seconds
        if dropped is not None and kept:
            numbers["dropped_to_kept_seconds"] = dropped / kept
        correlation = self.stats.kept.correlation
        if correlation is not None:  # trap 25: the first to finish are a biased sample where this is far from 0
            numbers["seconds_return_correlation"] = correlation
        return numbers | self.cost.metrics() | dict(self.extra)


async def collect(
    env: EnvPool,
    agent: Agent,
    tasks: Sequence[TaskSpec],
    *,
    options: RunOptions,
    strategy: Strategy | None = None,
    first: int = 0,
    done: Iterable[Episode] = (),
    keep: list[Episode] | None = None,
    on_episode: Callable[[Episode], None] | None = None,
) -> Collected:
    """Play ``options.group_size`` episodes of each task and group them.

    Episodes finish in any order and are sorted by task and member, so that later steps do not depend on which was
    faster.

    Args:
        env: environments, kept from round to round.
        agent: agent that plays.
        tasks: one task per group.
        options: how to run; its seed names the round, and episode ids and agents' random numbers follow from it.
        strategy: rule for branching in the middle of episodes (default: whole attempts only).
        first: number of tasks of the round collected before, since episode ids follow from a task's place in it.
        done: finished episodes of this very round; they are not played again.
        keep: list to which finished episodes are appended at once, so that an interrupted round can be continued.
        on_episode: called with every episode as it finishes.

    Raises:
        PromptTooLongError: the very first prompt of every single episode is too long, so there is nothing to learn.
        InfrastructureError: the infrastructure lost every single episode.
        UsageError: much of the environment's text is not in the model's vocabulary.
    """
    stats = RunStats()
    placed = [IndexedTask(index, task) for index, task in enumerate(tasks, first)]
    order = {group_id(env.env_id, each.task, each.index, options.seed): each.index for each in placed}
    finished = [episode for episode in done if episode.group_id in order]
    for episode in finished:
        stats.add(episode)
    skip = {episode.episode_id for episode in finished}
    if strategy is None:
        played = run_episodes(env, agent, placed, options=options, skip=skip, stats=stats)
    else:
        played = branch_episodes(env, agent, placed, strategy=strategy, options=options, skip=skip, stats=stats)
    async with aclosing(played) as episodes:
        async for episode in episodes:
            finished.append(episode)
            if keep is not None:
                keep.append(episode)  # at once, so that a Ctrl-C in this round loses only what is being played
            if on_episode is not None:
                on_episode(episode)
    refuse_hopeless(finished, agent)
    finished.sort(key=lambda e: (order[e.group_id], int(e.episode_id.rpartition("-")[2])))
    return Collected(tuple(grouped(finished)), stats, cost=RolloutCost.of(finished), tasks=len(placed))
