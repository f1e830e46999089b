"""Runs that keep episodes store what the learner knew about each of their tokens and turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnwise.rollouts.learner_records import LearnerRecord, read_record
from turnwise.rollouts.store import load_episodes
from turnwise.trainers import archer, loop, on_policy

from . import small
from .test_archer import config as archer_config
from .test_on_policy import running

QUIET: dict[str, Any] = {"steps": 2, "eval": {"split": "train", "episodes": 2, "every": 0}}


def train(name: str, out: Path, model: Path, keep: str) -> None:
    changes = {**QUIET, "keep_episodes": keep}
    if name == "loop":
        loop.train(small.looping(out, model, **changes))
    elif name == "ppo":
        on_policy.train(running(out, model, "ppo", **changes))
    else:
        archer.train(archer_config(out, model, **changes))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loop", "ppo", "archer"])
def test_kept_episodes_have_the_learners_numbers(name: str, tmp_path: Path, cloned: Path) -> None:
    train(name, tmp_path / "run", cloned / "model", "all")
    store = tmp_path / "run" / "training_episodes"
    records: list[LearnerRecord] = []
    for episode in load_episodes(store):
        record = read_record(store, episode.episode_id, int(episode.fingerprints["step"]))
        assert record is not None, episode.episode_id
        assert [len(turn.advantages) for turn in record.turns] == [len(turn.action_ids) for turn in episode.turns]
        records.append(record)
    turns = [turn for record in records for turn in record.turns]
    assert len({record.step for record in records}) == 2
    assert all(turn.value is not None for turn in turns) == (name != "loop"), "a critic's value before each turn"
    assert all(len(turn.entropies) == len(turn.logprobs) == len(turn.clipped_high) for turn in turns)
    assert {record.updates is None for record in records} == {name == "archer"}
    assert any(turn.entropies for turn in turns) == (name != "archer"), "ArCHer's actor learns from other utterances"
    if name == "archer":
        assert all(len(set(turn.advantages)) == 1 for turn in turns), "the critic judges whole utterances"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loop", "archer"])
def test_keeping_them_changes_nothing_that_is_learned(name: str, tmp_path: Path, cloned: Path) -> None:
    """LOOP counts clipped tokens, and ArCHer's critic judges the kept episodes once more; neither leaves a trace."""
    for keep in ("none", "all"):
        train(name, tmp_path / keep, cloned / "model", keep)
    one, other = ((tmp_path / keep / "model" / "model.safetensors").read_bytes() for keep in ("none", "all"))
    assert one == other
