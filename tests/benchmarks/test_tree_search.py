"""The comparison of a search with the best of whole attempts: its two formulas."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any

import pytest

from turnwise import Action, Episode, Outcome, Score, TaskSpec, Turn
from turnwise.envs.messages import Observation
from turnwise.rollouts.episode import Lookahead

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_the_expected_best_is_the_mean_over_all_subsets(bench: Any, m: int) -> None:
    values = [-3.0, 1.0, 1.0, 4.0, -7.0]
    assert bench.expected_best(values, m) == pytest.approx(
        statistics.fmean(map(max, itertools.combinations(values, m)))
    )
    with pytest.raises(ValueError, match="play more with --attempts"):
        bench.expected_best(values, 6)


def test_the_best_path_is_a_prefix_of_the_episode_and_a_rollout_that_ended(bench: Any) -> None:
    turns = tuple(Turn(Observation.of("o"), Action("a"), -1.0) for _ in range(3))
    ahead = (
        Lookahead(0, (-1.0, -1.0, -1.0, -1.0), Outcome.COMPLETED),
        Lookahead(1, (0.5,), Outcome.COMPLETED),
        Lookahead(2, (9.0,), Outcome.INFRA_FAILED),
    )
    episode = Episode("e", "E", TaskSpec("t"), "g", turns, Outcome.COMPLETED, score=Score(True), lookaheads=ahead)
    assert bench.best_path(episode) == -0.5
