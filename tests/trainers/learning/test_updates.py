from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnwise.tasks.rng import Rng
from turnwise.trainers.learning.learner import Update
from turnwise.trainers.learning.updates import minibatches, parts_of, summary


@given(st.integers(1, 100), st.integers(1, 40), st.integers(0, 3))
def test_minibatches_take_every_episode_once(count: int, size: int, seed: int) -> None:
    parts = minibatches(count, size, Rng("test", seed))
    assert sorted(index for part in parts for index in part) == list(range(count))
    lengths = [len(part) for part in parts]
    assert max(lengths) <= size
    assert max(lengths) - min(lengths) <= 1
    assert len(parts) == -(-count // size) == parts_of(count, size)


def test_without_a_size_everything_is_one_minibatch() -> None:
    (part,) = minibatches(7, None, Rng("test"))
    assert sorted(part) == list(range(7))
    assert minibatches(0, None, Rng("test")) == minibatches(0, 4, Rng("test")) == []


def test_a_summary_has_means_maxima_and_counts_and_leaves_out_what_did_nothing() -> None:
    updates = [
        Update(True, metrics={"loss": 1.0, "staleness_max": 2.0}),
        Update(False, metrics={"loss": 99.0}),
        Update(False, aborted=True, metrics={"loss": 3.0, "staleness_max": 5.0}),
    ]
    assert summary(updates) == {
        "loss": 2.0,
        "staleness_max": 5.0,
        "updates": 1.0,
        "updates_skipped": 2.0,
        "aborted": 1.0,
    }
    assert summary([]) == {"updates": 0.0, "updates_skipped": 0.0, "aborted": 0.0}
