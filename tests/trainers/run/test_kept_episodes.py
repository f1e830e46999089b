"""Kept training episodes are on disk when their step has been learned, so that no kill leaves a gap."""

from __future__ import annotations

from pathlib import Path

import turnwise as tw
from turnwise.rollouts.episode import Episode, Outcome
from turnwise.rollouts.learner_records import LearnerRecord, read_record
from turnwise.rollouts.store import load_episodes
from turnwise.trainers.learning.groups import grouped
from turnwise.trainers.run.kept_episodes import STEP, KeptEpisodes


def episode(name: str) -> Episode:
    """An episode without turns."""
    return Episode(f"{name}-0", "e", tw.TaskSpec("t"), name, (), Outcome.COMPLETED)


def test_all_episodes_of_a_step_are_on_disk_before_its_checkpoint(tmp_path: Path) -> None:
    with KeptEpisodes(tmp_path / "kept", "all") as kept:
        for step in range(3):
            kept.add(step, grouped([episode(f"g{step}")]))
            stored = load_episodes(tmp_path / "kept")  # what a SIGKILL would leave
            assert [each.fingerprints[STEP] for each in stored] == [str(each + 1) for each in range(step + 1)]
        kept.add(2, grouped([episode("g2")]))
    assert len(load_episodes(tmp_path / "kept")) == 3, "a step that is collected again is kept once"


def test_numbers_of_the_learner_belong_to_episodes_that_were_stored_now(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with KeptEpisodes(folder, "sample") as kept:
        kept.add(0, grouped([episode("g0"), episode("h0")]))
        assert kept.kept == {"g0-0"}, "the attempts at the first task"
        kept.learned([LearnerRecord("g0-0", 1, ())])
        kept.add(0, grouped([episode("i0")]))  # a second round of the same step
        assert kept.kept == {"g0-0"}
        kept.add(1, grouped([episode("g0")]))
        assert not kept.kept, "it was stored before, perhaps with other tokens"
    assert read_record(folder, "g0-0", 1) == LearnerRecord("g0-0", 1, ()), "they are written when the run ends"
    with KeptEpisodes(tmp_path / "none", "none") as kept:
        kept.add(0, grouped([episode("g0")]))
        assert not kept.kept
    assert not (tmp_path / "none").exists()
