"""Job: one episode of a run, before it is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..tasks.spec import TaskSpec
from .episode import Fork


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play.

    Args:
        index: index of the task in the run.
        member: index of the episode in its group.
        episode_id: a pure function of run seed, environment id, task, index and member.
        group_id: the same without the member.
        env_id: id of the environment.
        fingerprints: records that all episodes of the run share.
        fork: branching point, if the episode leaves another one.
    """

    task: TaskSpec
    index: int
    member: int
    episode_id: str
    group_id: str
    env_id: str
    fingerprints: Mapping[str, str]
    fork: Fork | None = None
