"""The counts of a run: outcomes, failures, and (trap 25) how long the dropped episodes had lasted."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import turnwise as tw
from turnwise.rollouts.progress import RunProgress, summary_line
from turnwise.rollouts.runner import run
from turnwise.rollouts.stats import Moments, RunStats

from .fakes import Count, answering, faulty, raises, tasks

PAIRS = st.lists(st.tuples(st.floats(0, 1e4), st.floats(-1e3, 1e3)), min_size=2, max_size=30)


@given(PAIRS)
def test_moments_agree_with_numpy(pairs: list[tuple[float, float]]) -> None:
    moments = Moments()
    for seconds, reward in pairs:
        moments.add(seconds, reward)
    x, y = numpy.array(pairs).T
    assert moments.mean_seconds == pytest.approx(x.mean(), abs=1e-9)
    assert moments.mean_reward == pytest.approx(y.mean(), abs=1e-9)
    if x.std() > 1e-3 and y.std() > 1e-3:
        assert moments.correlation == pytest.approx(numpy.corrcoef(x, y)[0, 1], abs=1e-3)
    correlation = moments.correlation
    assert correlation is None or -1 <= correlation <= 1


def test_nothing_has_no_mean() -> None:
    assert Moments().mean_seconds is None
    assert Moments().mean_reward is None
    assert Moments().correlation is None
    assert RunStats().success_rate is None
    constant = Moments()
    for _ in range(3):
        constant.add(1.0, 1.0)
    assert constant.correlation is None, "what does not vary correlates with nothing"


def some(outcome: tw.Outcome, seconds: float, reward: float, success: bool = False) -> tw.Episode:
    (episode,) = run(Count, answering(), tasks(1))
    turn = replace(episode.turns[0], reward=reward, seconds_policy=seconds / 2, seconds_env=seconds / 4)
    score = tw.Score(success=success) if outcome.scored else None
    return replace(episode, turns=(turn,), outcome=outcome, seconds=seconds, score=score)


def test_dropped_episodes_are_seen_and_kept_apart() -> None:
    stats = RunStats()
    for seconds in (1.0, 2.0, 3.0):
        stats.add(some(tw.Outcome.COMPLETED, seconds, reward=-seconds, success=seconds < 2))
    stats.add(some(tw.Outcome.INFRA_FAILED, 9.0, reward=-4.0))
    stats.add(some(tw.Outcome.CANCELLED, 11.0, reward=-6.0))
    assert stats.kept.count == 3
    assert stats.kept.mean_seconds == 2.0
    assert stats.kept.correlation == pytest.approx(-1.0), "long episodes earn less here:"
    assert stats.dropped.count == 2
    assert stats.dropped.mean_seconds == 10.0, "dropping the longest ones is no fair sampling, and it shows"
    assert stats.dropped.mean_reward == -5.0
    assert stats.success_rate == pytest.approx(1 / 3), "the dropped ones are in no denominator"
    assert stats.episodes == 5


def test_the_time_split_adds_up() -> None:
    stats = RunStats()
    stats.add(some(tw.Outcome.COMPLETED, 4.0, 0.0))
    stats.add(some(tw.Outcome.POLICY_FAILED, 100.0, 0.0))
    assert (stats.seconds_policy, stats.seconds_env, stats.seconds_ours) == (2.0, 1.0, 1.0)


def test_retries_and_failures_are_counted_by_kind() -> None:
    stats = RunStats()
    env = faulty({0: [(1, raises)], 1: [(1, raises)] * 3})
    run(env, answering(), tasks(4), stats=stats, backoff=0.0, isolation="inline")
    assert stats.failures == {"EnvironmentFailedError": 4}
    assert stats.retries == 3
    assert stats.outcomes == {tw.Outcome.COMPLETED: 3, tw.Outcome.INFRA_FAILED: 1}
    assert stats.turns == 10, "three episodes of three, and the action that was never answered"
    line = summary_line(stats, 3.0)
    assert line == "success 100.0 % · return 1.25 · 3 turns/s · 4 EnvironmentFailedError, 1 infra_failed, 3 retried"


def shown(terminal: bool, **kwargs: Any) -> str:
    out, stats = io.StringIO(), RunStats()
    console = Console(file=out, force_terminal=terminal, width=120)
    with RunProgress(stats, total=3, console=console, **kwargs) as progress:
        for episode in run(Count, answering(), tasks(3), stats=stats):
            assert episode.scored
            progress.tick()
    return out.getvalue()


def test_progress_shows_on_a_terminal_and_nowhere_else() -> None:
    on_terminal = shown(True)
    assert "3/3" in on_terminal
    assert "success 100.0 %" in on_terminal
    assert "turns/s" in on_terminal
    assert shown(False) == ""
    assert shown(True, quiet=True) == ""


def test_progress_without_a_known_total() -> None:
    out, stats = io.StringIO(), RunStats()
    with RunProgress(stats, console=Console(file=out, force_terminal=True, width=120)) as progress:
        run(Count, answering(), tasks(2), stats=stats)
        progress.tick()
    assert "2/?" in out.getvalue()
