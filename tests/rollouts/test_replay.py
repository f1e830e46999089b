"""Replay: an honest record passes; a record that was touched is found out at the turn that was touched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.agents.scripted import RandomAgent
from turnwise.errors import EnvironmentTimeoutError, UnknownEnvironmentError, UsageError
from turnwise.rollouts.replay import Difference, replay
from turnwise.rollouts.runner import run
from turnwise.rollouts.store import EpisodeStore, load_episodes

from .fakes import Count, answering, faulty, raises, tasks

LENGTH = 6


def record(**options: Any) -> tw.Episode:
    (episode,) = run(Count, RandomAgent(), tasks(1), env_kwargs={"length": LENGTH}, **options)
    return episode


def edited(episode: tw.Episode, number: int, **changes: Any) -> tw.Episode:
    turns = list(episode.turns)
    turns[number] = replace(turns[number], **changes)
    return replace(episode, turns=tuple(turns))


def test_an_honest_record_passes() -> None:
    result = replay(record(), Count)
    assert result.ok
    assert result.turns == LENGTH
    assert result.difference is None


def test_what_was_stored_replays_from_its_id_alone(tmp_path: Path) -> None:
    mazes = [tw.TaskSpec("maze", template=name, seed=seed) for seed, name in enumerate(("rooms",) * 3)]
    env = tw.make("turnwise/Maze-v0").unwrapped
    assert isinstance(env, tw.TurnEnv)
    mazes = list(env.tasks().sample(3))
    episodes = run("turnwise/Maze-v0", RandomAgent(), mazes, env_kwargs={"max_turns": 12})
    with EpisodeStore(tmp_path / "s") as store:
        for episode in episodes:
            store.append(episode)
    for episode in load_episodes(tmp_path / "s"):
        result = replay(episode)
        assert result.ok, str(result.difference)
        assert result.turns == len(episode.turns)


@given(st.integers(0, LENGTH - 1), st.data())
def test_any_edit_is_found_at_its_turn(number: int, data: st.DataObject) -> None:
    episode = record()
    last = number == LENGTH - 1
    edits: dict[str, tuple[Callable[[], tw.Episode], int, str]] = {
        "reward": (lambda: edited(episode, number, reward=episode.turns[number].reward + 1e-9), number, "reward"),
        "observation": (
            lambda: edited(episode, number, observation=tw.Observation((tw.message("user", "forged"),))),
            number,
            "observation",
        ),
        "terminated": (lambda: edited(episode, number, terminated=not last), number, "terminated"),
        "truncated": (lambda: edited(episode, number, truncated=True), number, "truncated"),
        "obs_key": (lambda: edited(episode, number, obs_key="forged"), number, "obs_key"),
        "info": (lambda: edited(episode, number, info={"forged": 1}), number, "info"),
    }
    if not last:  # the last turn's observation is not recorded here, so no check could fail
        edits["action"] = (lambda: edited(episode, number, action=tw.Action("forged")), number, "info")
    tampered, turn, what = edits[data.draw(st.sampled_from(sorted(edits)))]
    result = replay(tampered(), Count)
    assert not result.ok
    assert result.difference is not None
    assert (result.difference.turn, result.difference.what) == (turn, what)
    assert result.turns == turn, "the turns before it agree"


@given(st.integers(0, LENGTH - 1))
def test_a_dropped_turn_is_found_where_it_is_missing(number: int) -> None:
    episode = record()
    result = replay(replace(episode, turns=episode.turns[:number] + episode.turns[number + 1 :]), Count)
    assert result.difference is not None
    assert result.difference.turn == number


@given(st.integers(0, LENGTH))
def test_an_added_turn_is_found_where_it_stands(number: int) -> None:
    episode = record()
    copied = episode.turns[min(number, LENGTH - 1)]
    result = replay(replace(episode, turns=(*episode.turns[:number], copied, *episode.turns[number:])), Count)
    assert result.difference is not None
    # A copy of turn n before turn n passes as turn n itself; it is the real one after it that does not fit.
    assert result.difference.turn == (number if number == LENGTH else number + 1)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"score": tw.Score(success=False)}, "score"),
        ({"score": None}, "score"),
        ({"outcome": tw.Outcome.TRUNCATED}, "outcome"),
        ({"outcome": tw.Outcome.POLICY_FAILED}, "outcome"),
        ({"final_observation": tw.Observation()}, "final observation"),
    ],
)
def test_a_forged_ending_is_found_at_the_end(changes: dict[str, Any], what: str) -> None:
    result = replay(replace(record(), **changes), Count)
    assert result.difference is not None
    assert (result.difference.turn, result.difference.what) == (LENGTH, what)


def test_another_task_is_found_before_anything_is_played() -> None:
    result = replay(replace(record(), task=tw.TaskSpec("Count", seed=1)), Count)
    assert result.difference is not None
    assert result.difference.what == "task digest"


def test_the_difference_reads_as_one_line_with_both_values() -> None:
    result = replay(edited(record(), 2, reward=7.0), Count)
    assert str(result.difference) == "turn 2: reward was 7.0 and is now 0.125"


def test_long_observations_are_shown_where_they_part() -> None:
    honest = record()
    long = "x" * 100_000
    said = str(Difference(3, "observation", tw.Observation.of(long + "honest"), tw.Observation.of(long + "touched")))
    assert "honest" in said, "what differs is shown"
    assert "touched" in said
    assert len(said) < 700, "and what agrees is not shown for pages"
    assert "Message(" not in str(replay(edited(honest, 2, observation=tw.Observation.of("?")), Count).difference)


def test_episodes_that_were_cut_short_agree_as_far_as_they_go() -> None:
    env = faulty({0: [(3, raises)]}, length=LENGTH)
    (failed,) = run(env, answering(), tasks(1), retries=0, isolation="inline")
    assert len(failed.turns) == 3, "the action that was not answered is the last"
    result = replay(failed, lambda: Count(length=LENGTH))
    assert result.ok
    assert result.turns == 2
    assert not replay(edited(failed, 1, reward=5.0), lambda: Count(length=LENGTH)).ok
    again = replay(failed, faulty({0: [(3, raises)]}, length=LENGTH))
    assert again.ok, "a failure that can be repeated is as it was recorded"


def test_an_environment_that_fails_now_is_a_difference() -> None:
    for turn in (0, 2):
        result = replay(record(), faulty({0: [(turn, raises)]}, base=Count))
        assert result.difference is not None
        assert result.difference.turn == max(0, turn - 1)
        assert "ZeroDivisionError" in result.difference.replayed


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """Set at the end of a test, whose threads are then awaited."""
    before, event = set(threading.enumerate()), threading.Event()
    yield event
    event.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("turn", [0, 2])
def test_an_environment_that_hangs_now_is_a_difference(let_go: threading.Event, turn: int) -> None:
    def hangs(env: Count) -> None:
        let_go.wait(60)

    result = replay(record(), faulty({0: [(turn, hangs)]}, base=Count), env_timeout=0.5)
    assert result.difference is not None
    assert (result.difference.turn, result.difference.what) == (max(0, turn - 1), "step" if turn else "reset")
    assert "EnvironmentTimeoutError: no answer to" in result.difference.replayed
    assert "0.5 s" in result.difference.replayed


@pytest.mark.usefixtures("let_go")
def test_a_replay_closes_its_environment_and_leaves_no_thread() -> None:
    class Watched(Count):
        opened: ClassVar[list[Count] | None] = []
        closed: ClassVar[list[Count] | None] = []

    assert replay(record(), Watched).ok
    assert Watched.opened == Watched.closed != []


def test_an_environment_that_cannot_be_made_in_time_is_said_so(let_go: threading.Event) -> None:
    def slow(**kwargs: Any) -> Count:
        let_go.wait(60)
        return Count(**kwargs)

    with pytest.raises(EnvironmentTimeoutError, match=r"no answer to open after 0\.05 s"):
        replay(record(), slow, env_timeout=0.05)


def test_a_record_of_an_unknown_environment_asks_for_one() -> None:
    with pytest.raises(UnknownEnvironmentError):
        replay(record())
    with pytest.raises(UsageError, match="env_kwargs are not JSON"):
        replay(replace(record(), fingerprints={"env_kwargs": "<object>"}), Count)
