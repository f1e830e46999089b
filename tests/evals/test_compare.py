"""Two runs: differences, pairing, and verdicts that do not overclaim."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Episode, Outcome
from turnwise.errors import UsageError
from turnwise.evals.compare import compare
from turnwise.evals.formatting import signed

Make = Callable[..., Episode]


def run(make_episode: Make, solved: list[bool], *, first: int = 0, **fields: object) -> list[Episode]:
    return [make_episode(success, seed=first + i, **fields) for i, success in enumerate(solved)]


def test_a_large_difference_is_called_by_name(make_episode: Make) -> None:
    a = run(make_episode, [i % 4 == 0 for i in range(100)])
    b = run(make_episode, [i % 4 != 0 for i in range(100)])
    comparison = compare(a, b, names=("before", "after"))
    assert comparison.success.paired
    assert comparison.verdict.startswith("after better: +50.0 points (")
    other_way = compare(b, a, names=("after", "before"))
    assert other_way.verdict == comparison.verdict, "the better run leads by a positive number, whichever comes first"
    assert other_way.success.difference.value == -0.5, "the numbers stay those of b − a"
    assert other_way.verdict_on(other_way.mean_return) == comparison.verdict_on(comparison.mean_return)


def test_a_run_against_itself_shows_no_difference(make_episode: Make) -> None:
    a = run(make_episode, [i % 3 == 0 for i in range(30)])
    comparison = compare(a, a)
    assert comparison.success.difference.value == 0
    assert comparison.mean_return.difference.value == 0
    assert comparison.verdict.startswith("no difference shown: +0.0 points (")


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_swapping_runs_mirrors_the_difference(make_episode: Make, pairs: list[tuple[bool, bool]]) -> None:
    a, b = (run(make_episode, [pair[i] for pair in pairs]) for i in range(2))
    forward, backward = compare(a, b).success.difference, compare(b, a).success.difference
    assert forward.value == pytest.approx(-backward.value)
    assert (forward.low, forward.high) == pytest.approx((-(backward.high or 0), -(backward.low or 0)))


def test_pairing_makes_a_difference_surer(make_episode: Make) -> None:
    """The same 60 tasks, and B solves what A solves and a few more; against the same counts on other tasks."""
    hard = [i % 2 == 0 for i in range(60)]
    better = [h or i % 10 == 1 for i, h in enumerate(hard)]
    a = run(make_episode, hard)
    paired = compare(a, run(make_episode, better))
    unpaired = compare(a, run(make_episode, better, first=1000))
    assert (paired.success.paired, unpaired.success.paired) == (True, False)
    assert paired.success.difference.value == pytest.approx(unpaired.success.difference.value)
    assert paired.success.difference.excludes_zero
    assert not unpaired.success.difference.excludes_zero
    assert "independent" in unpaired.notes[0]


def test_partial_runs_are_compared_on_what_both_played(make_episode: Make) -> None:
    a = run(make_episode, [True] * 20)
    b = run(make_episode, [False] * 12)
    comparison = compare(a, b)
    assert comparison.shared_tasks == comparison.success.a.n == 12
    assert comparison.notes == ("compared on the 12 tasks that both runs played; 8 others left out",)


def test_unscored_episodes_are_left_out(make_episode: Make) -> None:
    a = run(make_episode, [True, False] * 10)
    b = [*a, *run(make_episode, [False] * 20, outcome=Outcome.INFRA_FAILED)]
    assert compare(a, b).success.difference.value == 0


def test_returns_are_compared_task_by_task(make_episode: Make) -> None:
    """Tasks differ by far more than the runs do; only pairing can see the difference."""
    rng = np.random.default_rng(0)
    base = rng.normal(0, 50, 40)
    gains = rng.normal(1.0, 0.5, 40)
    a = [make_episode(False, seed=i, rewards=(float(base[i]),)) for i in range(40)]
    b = [make_episode(False, seed=i, rewards=(float(base[i] + gains[i]),)) for i in range(40)]
    verdict = compare(a, b).mean_return.verdict()
    assert verdict.startswith("B better: +"), verdict
    apart = [make_episode(False, seed=100 + i, rewards=(float(base[i] + gains[i]),)) for i in range(40)]
    assert compare(a, apart).mean_return.verdict().startswith("no difference shown")


def test_levels_are_compared_one_by_one(make_episode: Make) -> None:
    a = [make_episode(False, seed=i, level=1 + i % 2) for i in range(40)]
    b = [make_episode(i % 2 == 1, seed=i, level=1 + i % 2) for i in range(40)]
    comparison = compare(a, b)
    assert [level.name for level in comparison.levels] == ["level 1", "level 2"]
    assert [level.difference.value for level in comparison.levels] == [0.0, 1.0]
    assert [level.difference.excludes_zero for level in comparison.levels] == [False, True]


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_promised(make_episode: Make) -> None:
    """200 pairs of runs of equally good policies, 50 tasks of varying difficulty: about 5 % may be called different."""
    rng = np.random.default_rng(23)
    alarms = 0
    for _ in range(200):
        chance = rng.beta(1, 1, 50)
        a, b = (run(make_episode, [bool(x) for x in rng.random(50) < chance]) for _ in range(2))
        difference = compare(a, b).success.difference
        alarms += difference.excludes_zero
    assert alarms <= 18


@pytest.mark.slow
@pytest.mark.shift
@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_a_difference_cover_it(make_episode: Make, paired: bool) -> None:
    """300 pairs of runs, 50 tasks of varying difficulty; the second policy solves half of what the first does not."""
    rng, hits = np.random.default_rng(5), 0
    for _ in range(300):
        chance = rng.beta(1, 1, 50)
        other = chance if paired else rng.beta(1, 1, 50)
        a = run(make_episode, (rng.random(50) < chance).tolist())
        b = run(make_episode, (rng.random(50) < (1 + other) / 2).tolist(), first=0 if paired else 1000)
        found = compare(a, b).success.difference
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.25 <= found.high
    assert 0.92 <= hits / 300 <= 0.98, "a standard error is 1.3 points"


def test_one_task_gives_no_verdict_on_returns(make_episode: Make) -> None:
    comparison = compare([make_episode()], [make_episode()])
    assert comparison.mean_return.verdict().startswith("no verdict")


def test_nothing_to_compare_is_an_error(make_episode: Make) -> None:
    good = [make_episode()]
    with pytest.raises(UsageError, match="run B has no scored episode"):
        compare(good, [make_episode(outcome=Outcome.CANCELLED)])
    with pytest.raises(UsageError, match="no environment in common"):
        compare(good, [make_episode(env_id="demo/Other-v0")])


def test_comparison_is_json(make_episode: Make) -> None:
    data = compare(run(make_episode, [True] * 5), run(make_episode, [False] * 5)).to_json()
    assert json.loads(json.dumps(data, allow_nan=False))["verdict"].startswith("A better")


@pytest.mark.parametrize(
    ("number", "plus", "text"),
    [(1.25, True, "+1.2"), (-0.04, True, "+0.0"), (-3.14, False, "−3.1"), (2.0, False, "2.0")],
)
def test_signs(number: float, plus: bool, text: str) -> None:
    assert signed(number, 1, plus=plus) == text
