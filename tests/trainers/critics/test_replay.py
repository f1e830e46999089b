from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import UsageError
from turnwise.tasks.rng import Rng
from turnwise.trainers.critics.replay import Replay, packed, rows_of, unpacked
from turnwise.trainers.critics.transitions import Transition

from .turns import step

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def any_transition(draw: st.DrawFn) -> Transition:
    action = draw(IDS)
    logprobs = tuple(draw(st.lists(NUMBERS, min_size=len(action), max_size=len(action))))
    integers, texts = st.integers(-1, 2**40), st.text(max_size=5)
    numbers = draw(NUMBERS), draw(IDS), draw(st.booleans()), draw(NUMBERS)
    return Transition(draw(IDS), action, logprobs, *numbers, draw(integers), draw(texts), draw(integers))


@given(st.lists(any_transition(), max_size=6))
def test_packing_loses_no_bit(held: list[Transition]) -> None:
    assert unpacked(packed(held)) == held


@given(st.integers(1, 6), st.lists(st.integers(0, 3), max_size=6))
def test_the_newest_are_held_and_the_others_counted(capacity: int, sizes: list[int]) -> None:
    replay, everything = Replay(capacity), list[Transition]()
    for size in sizes:
        new = [step((len(everything) + i,), (1,)) for i in range(size)]
        everything += new
        replay.add(new)
    newest = everything[-capacity:]
    assert unpacked(replay.state_dict()["transitions"]) == newest
    assert (len(replay), replay.added, replay.dropped) == (
        len(newest),
        len(everything),
        len(everything) - len(newest),
    )
    assert replay.metrics() == {"replay/size": len(newest), "replay/dropped": len(everything) - len(newest)}


def test_whole_episodes_are_drawn_in_order_and_every_transition_equally_often() -> None:
    lengths, replay, rng = (1, 2, 5), Replay(10), Rng("episodes")
    for number, length in enumerate(lengths):
        replay.add(step((9,), (turn,), name=str(number), turn=turn) for turn in range(length))
    seen: dict[tuple[str, int], int] = {}
    for _ in range(1000):
        drawn = replay.sample_episodes(4, rng)
        assert len(drawn) == 4
        for one, other in pairwise(drawn):
            assert other.turn == 0 or (other.episode_id, other.turn) == (one.episode_id, one.turn + 1)
        for each in drawn:
            seen[each.episode_id, each.turn] = seen.get((each.episode_id, each.turn), 0) + 1
    assert len(seen) == sum(lengths)
    assert all(400 <= count <= 600 for count in seen.values()), "500 each"


def test_recent_turns_are_those_of_recent_policies() -> None:
    replay = Replay(10)
    replay.add(replace(step((1,), (2,)), version=version) for version in (-1, 0, 1, 1, 2))
    assert [each.version for each in replay.since(1)] == [1, 1, 2]
    assert [each.version for each in replay.since(-5)] == [0, 1, 1, 2], "a demonstration has no policy"


def test_samples_are_a_function_of_contents_and_generator(tmp_path: Path) -> None:
    replay = Replay(5)
    replay.add(step((i,), (1,)) for i in range(7))
    drawn = replay.sample(60, Rng("a", 1))
    assert drawn == replay.sample(60, Rng("a", 1))
    assert drawn != replay.sample(60, Rng("a", 2))
    assert {each.state_ids for each in drawn} == {(i,) for i in range(2, 7)}, "uniform over what is held"
    torch.save(replay.state_dict(), tmp_path / "replay.pt")
    other = Replay(5)
    other.add([step((99,), (1,))])
    other.load_state_dict(torch.load(tmp_path / "replay.pt", weights_only=True))
    assert other.sample(60, Rng("a", 1)) == drawn
    assert (other.added, other.dropped) == (7, 2)


def test_a_smaller_replay_that_loads_a_larger_one_says_what_went() -> None:
    large, small = Replay(5), Replay(2)
    large.add(step((i,), (1,)) for i in range(6))
    small.load_state_dict(large.state_dict())
    assert (len(small), small.added, small.dropped) == (2, 6, 4)


def test_nothing_comes_from_nothing() -> None:
    with pytest.raises(UsageError, match="the replay is empty"):
        Replay(3).sample(1, Rng(0))
    with pytest.raises(UsageError, match="capacity 0"):
        Replay(0)


def row(name: str, turns: int, first: int = 0) -> list[Transition]:
    """An episode whose prompts grow: each begins with the prompt and the utterance before it."""
    prompts = [tuple(range(first, first + 2 * turn + 1)) for turn in range(turns)]
    return [step(ids, (first + 2 * turn + 1,), name=name, turn=turn) for turn, ids in enumerate(prompts)]


def test_rows_are_turns_of_an_episode_that_continue_each_other() -> None:
    rewritten = [step((8,), (1,), name="a", turn=3), step((8, 1, 2), (1,), name="a", turn=4)]
    replay = [*row("a", 3), *rewritten, *row("b", 2), *row("c", 2)[1:], step((5,), (1,), name="c", turn=2)]
    assert rows_of(replay) == [range(3), range(3, 5), range(5, 7), range(7, 8), range(8, 9)]
    assert rows_of([*row("a", 1), *row("b", 2)[1:]]) == [range(1), range(1, 2)], "of another episode"


def test_rows_are_drawn_whole_and_every_transition_as_often() -> None:
    replay = Replay(100)
    for number, turns in enumerate((1, 2, 5, 12)):
        replay.add(row(f"{turns}", turns, first=100 * number))
    held = dict.fromkeys(replay.sample(2000, Rng("all")), 0)
    assert len(held) == 20
    for draw in range(4000):
        sample = replay.sample_rows(10, Rng("rows", draw))
        assert len(sample) == 10
        inner = [len(rows) for rows in rows_of(sample)[1:-1]]
        assert set(inner) <= {1, 2, 5}, "rows between the first and the last are whole"
        for each in sample:
            held[each] += 1
    assert all(count == pytest.approx(2000, rel=0.1) for count in held.values()), "long rows as often as short ones"


def test_rows_of_one_turn_are_drawn_like_transitions() -> None:
    replay = Replay(50)
    replay.add(step((i,), (1,), name="e", turn=i) for i in range(50))
    assert replay.sample_rows(30, Rng("a")) == replay.sample(30, Rng("a"))
