"""Demonstrations that a limit cut off in a state longer than the model's context."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnwise.envs.messages import Observation
from turnwise.errors import UsageError
from turnwise.rollouts.episode import Outcome
from turnwise.rollouts.store import EpisodeStore, load_episodes
from turnwise.trainers import archer, soft_bellman, value_based
from turnwise.trainers.archer_settings import ArcherConfig
from turnwise.trainers.run.metrics import read_metrics
from turnwise.trainers.run.settings import TrainConfig
from turnwise.trainers.soft_bellman import SoftBellmanConfig
from turnwise.trainers.value_based import ValueBasedConfig

from . import small

CRITIC = {"encoder": {"hidden": 8, "layers": 1, "heads": 1, "intermediate": 8}, "head": 8}
OFFLINE = {"mode": "offline", "critic": "iql", "actor": "awr", "warmup": 0, "batch": 1, "critic_model": CRITIC}
PRETRAINED = {"warmup": 0, "critic_pretraining": {"updates": 9}, "critic_model": CRITIC}


@pytest.fixture
def store(tmp_path: Path, cloned: Path) -> Path:
    """A store of six demonstrations, of which the last was cut off in a state of many tokens."""
    *others, last = load_episodes(cloned / "demonstrations")[:6]
    turns = (*last.turns[:-1], replace(last.turns[-1], terminated=False))
    words = Observation.of("wall " * 2000)
    cut = replace(last, episode_id="long", turns=turns, outcome=Outcome.TRUNCATED, final_observation=words)
    with EpisodeStore(tmp_path / "store") as store:
        for episode in (*others, cut):
            store.append(episode)
    return tmp_path / "store"


def settings(kind: type[TrainConfig], tmp_path: Path, cloned: Path, store: Path, **changes: Any) -> Any:
    given: dict[str, Any] = {
        **small.SHARED,
        "out": str(tmp_path / "run"),
        "model": str(cloned / "model"),
        "steps": 2,
        "demonstrations": {"store": str(store)},
        "eval": {"split": "train", "episodes": 1, "every": 0},
    }
    return kind.model_validate(given | changes)


@pytest.mark.parametrize(
    ("script", "kind", "changes"),
    [
        (soft_bellman, SoftBellmanConfig, {"batch": 1}),
        (value_based, ValueBasedConfig, {"batch": 1}),
        (archer, ArcherConfig, OFFLINE),
        (archer, ArcherConfig, PRETRAINED),
    ],
    ids=["oreo", "ilql", "archer-offline", "archer-pretraining"],
)
def test_it_is_refused_before_the_first_step(
    tmp_path: Path, cloned: Path, store: Path, script: Any, kind: type[TrainConfig], changes: dict[str, Any]
) -> None:
    said = r"a limit cut off demonstration long in a state of 20\d\d tokens, and .* holds 1024\. .*last:K"
    with pytest.raises(UsageError, match=said):
        script.train(settings(kind, tmp_path, cloned, store, **changes))
    logged = tmp_path / "run/metrics.jsonl"
    assert not logged.exists() or not read_metrics(logged), "nothing was learned or evaluated"


def test_monte_carlo_returns_do_not_read_it(tmp_path: Path, cloned: Path, store: Path) -> None:
    changes = {"algorithm": {"name": "monte_carlo"}, "steps": 1}
    assert value_based.train(settings(ValueBasedConfig, tmp_path, cloned, store, **changes)).steps == 1
