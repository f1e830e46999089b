"""Episodes made by hand, for everything that reads episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from turnwise import Action, Episode, Observation, Outcome, Score, TaskSpec, Turn

EpisodeMaker = Callable[..., Episode]


def build_episode(
    success: bool = True,
    *,
    seed: int = 0,
    level: int = 1,
    split: str = "test_iid",
    template: str = "default",
    outcome: Outcome = Outcome.COMPLETED,
    rewards: Sequence[float] | None = None,
    attempt: int = 0,
    text: str = "left",
    says: str = "You see a door.",
    turn: dict[str, Any] | None = None,
    **fields: Any,
) -> Episode:
    """One episode of a made-up family; ``turn`` overrides fields of its last turn."""
    task = TaskSpec("made_up", template, level, seed, split)  # type: ignore[arg-type]
    rewards = rewards if rewards is not None else (0.0, 1.0 if success else 0.0)
    fields_of_a_turn: dict[str, Any] = {
        "observation": Observation.of(says),
        "action": Action(text),
        "prompt_ids": (1, 2, 3),
        "action_ids": (4, 5),
        "logprobs": (-0.5, -0.5),
        "versions": (0, 0),
        "seconds_policy": 0.3,
        "seconds_env": 0.1,
    }
    turns = [Turn(reward=reward, **fields_of_a_turn) for reward in rewards]
    if turns and turn:
        turns[-1] = replace(turns[-1], **turn)
    defaults: dict[str, Any] = {
        "episode_id": f"{task.digest}-{attempt}",
        "env_id": "demo/MadeUp-v0",
        "group_id": task.digest,
        "final_observation": Observation.of("The end."),
        "score": Score(success) if outcome.scored else None,
        "seconds": len(turns) * 0.5,
    }
    return Episode(task=task, turns=tuple(turns), outcome=outcome, **{**defaults, **fields})


@pytest.fixture(scope="session")
def make_episode() -> EpisodeMaker:
    """``build_episode``, as a fixture because test folders are not packages."""
    return build_episode
