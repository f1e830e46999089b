"""The episodes that are counted, those that are averaged, and above all those that are not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Action, Episode, Finish, Outcome, Score
from turnwise.errors import StoreError, UsageError
from turnwise.evals.failures import FailureKind, failure_kind, failure_label
from turnwise.evals.statistics import wilson
from turnwise.evals.summary import Summary, summarise

Make = Callable[..., Episode]
UNSCORED = st.lists(st.sampled_from([Outcome.INFRA_FAILED, Outcome.CANCELLED]), max_size=8)


@given(successes=st.lists(st.booleans(), min_size=1, max_size=20), lost=UNSCORED)
def test_unscored_episodes_enter_no_average(make_episode: Make, successes: list[bool], lost: list[Outcome]) -> None:
    judged = [make_episode(success, seed=i) for i, success in enumerate(successes)]
    broken = [make_episode(seed=1000 + i, outcome=o, rewards=(-99.0,)) for i, o in enumerate(lost)]
    without, with_lost = summarise(judged), summarise([*broken, *judged])
    assert (with_lost.success, with_lost.mean_return, with_lost.turns, with_lost.time) == (
        without.success,
        without.mean_return,
        without.turns,
        without.time,
    ), "a failure of the machinery says nothing about the policy"
    assert with_lost.success == wilson(sum(successes), len(successes))
    assert with_lost.scored == len(successes)
    assert with_lost.cancelled == lost.count(Outcome.CANCELLED)
    assert sum(with_lost.infrastructure.values()) == lost.count(Outcome.INFRA_FAILED)
    assert sum(with_lost.outcomes.values()) == with_lost.episodes == len(successes) + len(lost)


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([o for o in Outcome if o.scored]), st.booleans(), st.integers(1, 3)),
        min_size=1,
        max_size=25,
    )
)
def test_failures_and_successes_add_up(make_episode: Make, cases: list[tuple[bool, Outcome, bool, int]]) -> None:
    episodes = [
        make_episode(
            success, seed=i, outcome=outcome, level=level, turn={"info": {"unparsed": True}} if garbled else {}
        )
        for i, (success, outcome, garbled, level) in enumerate(cases)
    ]
    summary = summarise(episodes)
    solved = round(summary.success.value * summary.scored)
    assert solved + sum(summary.failures.values()) == summary.scored, "each failure has exactly one kind"
    if summary.levels:
        assert sum(level.episodes for level in summary.levels) == summary.scored
        assert sum(level.success.value * level.episodes for level in summary.levels) == pytest.approx(solved)


@pytest.mark.parametrize("episodes", [[], ["infra"], ["infra", "cancelled"]])
def test_nothing_scored_is_an_error_in_words_not_nan(make_episode: Make, episodes: list[str]) -> None:
    outcomes = {"infra": Outcome.INFRA_FAILED, "cancelled": Outcome.CANCELLED}
    run = [make_episode(outcome=outcomes[name], error="EnvironmentDiedError: gone") for name in episodes]
    with pytest.raises(UsageError) as caught:
        summarise(run)
    message = str(caught.value)
    assert "\n" not in message
    assert ("EnvironmentDiedError: gone" in message) if run else ("no episodes" in message)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"success": True}, None),
        ({"success": True, "outcome": Outcome.TRUNCATED}, None),
        ({"success": False}, FailureKind.WRONG_ANSWER),
        ({"success": False, "outcome": Outcome.TRUNCATED}, FailureKind.TURN_LIMIT),
        ({"success": False, "outcome": Outcome.POLICY_FAILED}, FailureKind.POLICY_FAILED),
        ({"success": False, "turn": {"info": {"unparsed": True}}}, FailureKind.UNPARSEABLE),
        (
            {"success": False, "outcome": Outcome.TRUNCATED, "turn": {"info": {"unparsed": True}}},
            FailureKind.UNPARSEABLE,
        ),
        (
            {"success": False, "outcome": Outcome.POLICY_FAILED, "turn": {"info": {"unparsed": True}}},
            FailureKind.POLICY_FAILED,
        ),
        ({"success": False, "outcome": Outcome.TRUNCATED, "rewards": ()}, FailureKind.TURN_LIMIT),
    ],
)
def test_kinds_of_failure(make_episode: Make, fields: dict[str, object], kind: FailureKind | None) -> None:
    assert failure_kind(make_episode(**fields)) is kind


def test_an_action_that_the_parser_could_not_read_is_unparseable(make_episode: Make) -> None:
    episode = make_episode(False)
    garbled = [
        type(turn)(turn.observation, Action("<<", problem="no tool call found"), turn.reward) for turn in episode.turns
    ]
    broken = make_episode(False, seed=1)
    object.__setattr__(broken, "turns", tuple(garbled))
    assert failure_kind(broken) is FailureKind.UNPARSEABLE
    summary = summarise([episode, broken])
    assert (summary.unparsed_actions, summary.actions) == (2, 4)


@pytest.mark.parametrize(
    ("error", "label"),
    [
        ("PolicyTimeoutError: no completion within 300 s", "policy failed (PolicyTimeoutError)"),
        ("something: else went wrong", "policy failed (something)"),
        ("two words: x", "policy failed (unknown)"),
        (None, "policy failed (unknown)"),
    ],
)
def test_failed_policies_are_told_apart_by_error(make_episode: Make, error: str | None, label: str) -> None:
    assert failure_label(make_episode(False, outcome=Outcome.POLICY_FAILED, error=error)) == label


def test_attempts_at_one_task_are_one_unit_and_give_pass_k(make_episode: Make) -> None:
    """Four tasks, four attempts: 4, 2, 1 and 0 succeed."""
    episodes = [
        make_episode(attempt < solved, seed=seed, attempt=attempt)
        for seed, solved in enumerate([4, 2, 1, 0])
        for attempt in range(4)
    ]
    summary = summarise(episodes)
    assert (summary.scored, summary.tasks, summary.success.n) == (16, 4, 4)
    assert summary.success.value == pytest.approx(7 / 16)
    at = {p.k: p.at.value for p in summary.pass_k}
    hat = {p.k: p.hat.value for p in summary.pass_k}
    assert at == {2: pytest.approx((1 + 5 / 6 + 1 / 2 + 0) / 4), 4: pytest.approx(3 / 4)}
    assert hat == {2: pytest.approx((1 + 1 / 6 + 0 + 0) / 4), 4: pytest.approx(1 / 4)}


def test_pass_k_uses_only_tasks_with_enough_attempts(make_episode: Make) -> None:
    """A task that lost an attempt to the infrastructure says nothing about k = 3."""
    episodes = [make_episode(True, seed=0, attempt=i) for i in range(3)]
    episodes += [make_episode(False, seed=1, attempt=i) for i in range(2)]
    episodes += [make_episode(seed=1, attempt=2, outcome=Outcome.INFRA_FAILED)]
    by_k = {p.k: p for p in summarise(episodes).pass_k}
    assert (by_k[3].at.value, by_k[3].at.n) == (1.0, 1)
    assert (by_k[2].at.value, by_k[2].at.n) == (0.5, 2)


def test_the_headline_k_is_one_that_most_tasks_have(make_episode: Make) -> None:
    episodes = [make_episode(seed=task, attempt=i) for task in range(5) for i in range(4 if task == 0 else 2)]
    summary = summarise(episodes)
    assert [p.k for p in summary.pass_k] == [2, 4]
    assert summary.largest_k == summary.pass_k[0], "one task in five says nothing about four attempts"


def test_single_attempts_have_no_pass_k(make_episode: Make) -> None:
    assert summarise([make_episode(seed=i) for i in range(3)]).pass_k == ()


def test_time_split_sums_to_the_wall_time(make_episode: Make) -> None:
    time = summarise([make_episode(seed=i) for i in range(4)]).time
    assert (time.policy, time.environment, time.turnwise) == pytest.approx((2.4, 0.8, 0.8))
    assert sum(time.shares) == pytest.approx(1)


def test_time_split_without_time_is_zero_not_nan(make_episode: Make) -> None:
    episode = make_episode(rewards=(), seconds=0.0)
    assert summarise([episode]).time.shares == (0.0, 0.0, 0.0)


def test_strata_appear_only_where_there_are_several(make_episode: Make) -> None:
    episodes = [make_episode(i % 3 > 0, seed=i, level=1 + i % 2, split="test_iid") for i in range(12)]
    summary = summarise(episodes)
    assert [level.name for level in summary.levels] == ["1", "2"]
    assert summary.splits == summary.templates == ()
    assert [level.tasks for level in summary.levels] == [6, 6]


def test_tokens_cut_actions_and_checks(make_episode: Make) -> None:
    episodes = [
        make_episode(False, seed=0, turn={"finish": Finish.LENGTH}, score=Score(False, {"found": True, "paid": False})),
        make_episode(True, seed=1, score=Score(True, {"found": True, "paid": True})),
        make_episode(True, seed=2, score=Score(True)),
    ]
    summary = summarise(episodes)
    assert (summary.action_tokens.value, summary.prompt_tokens.value, summary.cut_actions) == (4, 6, 1)
    assert {name: (check.value, check.n) for name, check in summary.checks.items()} == {
        "found": (1, 2),
        "paid": (0.5, 2),
    }


def test_summary_survives_json(make_episode: Make, tmp_path: Path) -> None:
    episodes = [make_episode(i % 2 == 0, seed=i // 2, attempt=i, level=1 + i % 2) for i in range(8)]
    summary = summarise(episodes, policy="oracle", planned=10, notes=["partial"])
    assert Summary.from_json(json.loads(json.dumps(summary.to_json(), allow_nan=False))) == summary
    summary.save(tmp_path / "summary.json")
    assert Summary.load(tmp_path / "summary.json") == summary
    assert not summary.complete


def test_summary_of_one_episode_is_json_without_nan(make_episode: Make) -> None:
    summary = summarise([make_episode()])
    assert summary.mean_return.low is None, "one task cannot say how returns vary"
    json.dumps(summary.to_json(), allow_nan=False)
    assert math.isfinite(summary.success.value)


@pytest.mark.parametrize("content", [None, "not json", "{}"])
def test_a_file_that_is_no_summary_is_a_one_line_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "summary.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StoreError, match=r"summary\.json"):
        Summary.load(path)


@given(order=st.permutations(range(12)))
@pytest.mark.slow
def test_order_of_episodes_does_not_matter(make_episode: Make, order: list[int]) -> None:
    """Episodes arrive in any order when they run concurrently."""
    episodes = [make_episode(i % 3 == 0, seed=i // 2, attempt=i, rewards=(float(i), 0.5)) for i in range(12)]
    assert summarise([episodes[i] for i in order]) == summarise(episodes)
