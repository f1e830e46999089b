"""A failing policy cannot avoid being counted: too many infrastructure failures make a run inconclusive."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from turnwise import Episode, Outcome
from turnwise.evals.collect_runs import Evaluation, Report
from turnwise.evals.compare import compare
from turnwise.evals.html import render_html
from turnwise.evals.markdown import render_markdown
from turnwise.evals.ranking import rank
from turnwise.evals.summary import Summary, summarise
from turnwise.evals.terminal import print_comparison, print_summary

Make = Callable[..., Episode]


def run(make_episode: Make, *, dodged: int, solved: int, retried: int = 0) -> list[Episode]:
    """Episodes of a policy whose environment fails whenever it does not know the answer."""
    lost = [make_episode(seed=i, outcome=Outcome.INFRA_FAILED, after_action=3) for i in range(dodged)]
    won = [make_episode(True, seed=100 + i, redrawn=int(i < retried)) for i in range(solved)]
    return [*lost, *won]


def shown(summary: Summary) -> str:
    out = io.StringIO()
    print_summary(summary, Console(file=out, highlight=False, width=120))
    return out.getvalue()


def test_a_policy_that_is_seldom_counted_has_no_success(make_episode: Make) -> None:
    summary = summarise(run(make_episode, dodged=70, solved=30))
    text = shown(summary)
    assert "success inconclusive" in text
    assert "100.0 %  (" not in text, "what is left over is no success rate"
    assert "failed in 70 of 100 episodes: 70 are not scored, 0 were played again; at most 5 % may fail" in text
    assert "In 70 episodes it failed after an action of the agent" in text
    assert "success is 30.0 %, and 100.0 % if they count as successes" in text
    assert Summary.from_json(summary.to_json()) == summary


@pytest.mark.parametrize(("dodged", "retried", "rate", "said"), [(5, 0, 0.05, ""), (6, 0, 0.05, "6 of 100")])
def test_the_rate_decides(make_episode: Make, dodged: int, retried: int, rate: float, said: str) -> None:
    played = run(make_episode, dodged=dodged, solved=100 - dodged, retried=retried)
    found = summarise(played, failure_rate=rate).inconclusive
    assert bool(found) is bool(said)
    assert said in found


def test_episodes_that_were_played_again_count_although_they_were_scored(make_episode: Make) -> None:
    summary = summarise(run(make_episode, dodged=0, solved=100, retried=70))
    assert summary.scored == 100
    assert "failed in 70 of 100 episodes: 0 are not scored, 70 were played again" in summary.inconclusive
    assert "success is 30.0 %, and 100.0 %" in summary.inconclusive


def test_what_was_repeated_exactly_drew_nothing_and_is_shown_only(make_episode: Make) -> None:
    few = shown(summarise([make_episode(True, seed=i, after_action=int(i < 2)) for i in range(10)]))
    assert "inconclusive" not in few
    assert "in 2 episodes the infrastructure failed after an action of the agent" in few, "every summary shows them"


def test_a_bug_of_the_environment_is_not_called_a_failure_of_the_infrastructure(make_episode: Make) -> None:
    bug = "EnvironmentFailedError: environment raised in step: ValueError: no such room"
    bugs = [make_episode(seed=i, outcome=Outcome.INFRA_FAILED, after_action=1, error=bug) for i in range(6)]
    won = [make_episode(True, seed=100 + i) for i in range(20)]
    found = summarise([*bugs, *won]).inconclusive
    assert "the environment raised an error in 6 of 26 episodes" in found
    assert "infrastructure" not in found
    lost = [make_episode(seed=50 + i, outcome=Outcome.INFRA_FAILED, error="EnvironmentDiedError: …") for i in range(2)]
    both = summarise([*bugs, *lost, *won]).inconclusive
    assert "the environment raised an error in 6 and the infrastructure failed in 2 of 28 episodes" in both
    few = shown(summarise([bugs[0], *won]))
    assert "in 1 episode the environment or the infrastructure failed after an action" in few


def test_two_failures_say_nothing(make_episode: Make) -> None:
    assert not summarise(run(make_episode, dodged=2, solved=8)).inconclusive
    assert summarise(run(make_episode, dodged=3, solved=7)).inconclusive


def test_a_cancelled_episode_is_neither_failed_nor_counted(make_episode: Make) -> None:
    stopped = [make_episode(seed=500 + i, outcome=Outcome.CANCELLED, error="nobody judged it") for i in range(900)]
    assert "failed in 6 of 100 episodes" in summarise([*run(make_episode, dodged=6, solved=94), *stopped]).inconclusive
    late = [make_episode(seed=500 + i, outcome=Outcome.CANCELLED, error="… (episode_timeout), …") for i in range(9)]
    assert "failed in 9 of 10 episodes" in summarise([make_episode(True), *late]).inconclusive


def test_nothing_is_better_than_what_is_inconclusive(make_episode: Make) -> None:
    honest = [make_episode(i < 30, seed=i) for i in range(100)]
    found = compare(honest, run(make_episode, dodged=70, solved=30), names=("honest", "dodger"))
    assert found.verdict == "no verdict: dodger inconclusive"
    out = io.StringIO()
    print_comparison(found, Console(file=out, highlight=False, width=120))
    assert out.getvalue().count("no verdict: dodger inconclusive") == 2, "on return, neither"
    assert "better" not in out.getvalue()
    lenient = compare(honest, run(make_episode, dodged=70, solved=30), failure_rates=(0.05, 0.7))
    assert not lenient.inconclusive, "the rate is that of the evaluation"


def test_what_is_inconclusive_is_ranked_last_and_shown_with_its_range(make_episode: Make) -> None:
    honest = [make_episode(i < 30, seed=i) for i in range(100)]
    dodger = run(make_episode, dodged=70, solved=30)
    found = rank({"dodger": dodger, "honest": honest})
    assert [row[:3] for row in found.rows][1] == ("dodger", "inconclusive", "30.0 – 100.0")
    assert rank({"dodger": dodger, "honest": honest}, failure_rates={"dodger": 0.7}).rows[0][0] == "dodger"
    for why in (shown(summarise(dodger)), report_of(dodger, render_markdown), report_of(dodger, render_html)):
        assert "30.0 – 100.0, possible" in why.replace(" %, possible", ", possible")


def report_of(episodes: list[Episode], render: Callable[[Report], str]) -> str:
    """A report on one evaluation."""
    return render(Report("a run", (Evaluation("run", summarise(episodes), tuple(episodes)),)))
