"""``EpisodeRequest``: one episode of a run, before it is played."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ..logs import event
from ..tasks.spec import TaskSpec
from .episode import Fork

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
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


def log_retry(request: EpisodeRequest, attempt: int, reason: str, wait: float) -> None:
    """Log that an infrastructure failure ended an attempt at a request, and that another follows.

    Args:
        request: The request.
        attempt: Number of the attempt that failed, from 1.
        reason: The failure, on one line.
        wait: Seconds until the next attempt.
    """
    text = (
        f"episode {request.episode_id} of {request.env_id}: attempt {attempt} failed ({reason}); the next in {wait:g} s"
    )
    place = {"episode": request.episode_id, "env": request.env_id}
    event(LOG, "retry", text, {**place, "attempt": attempt, "reason": reason, "pause_seconds": wait})
