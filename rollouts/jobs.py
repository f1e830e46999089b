"""What is to be played: one episode of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..tasks.spec import TaskSpec
from .episode import Fork


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to be played.

    Args:
        index: the task's place in the run.
        member: the episode's place in its group.
        episode_id: a pure function of run seed, environment id, task, index and member.
        group_id: the same without the member.
        env_id: the environment's id.
        fingerprints: what every episode of the run records.
        fork: where it leaves another one, if it does.
    """

    task: TaskSpec
    index: int
    member: int
    episode_id: str
    group_id: str
    env_id: str
    fingerprints: Mapping[str, str]
    fork: Fork | None = None
