"""Packed episodes: equal after a round trip, and linear in the length of an episode."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.agents.agent import Decision
from turnwise.envs.messages import ImagePart, Message, Observation, TextPart
from turnwise.errors import ContractError
from turnwise.rollouts.columns import from_table, to_table
from turnwise.rollouts.episode import Episode, Fork, Outcome, Turn
from turnwise.rollouts.packed import pack, unpack
from turnwise.rollouts.turns import recorded
from turnwise.tasks.score import Score
from turnwise.tasks.spec import Split

ids = st.lists(st.integers(0, 2**40), max_size=6).map(tuple)
said = Observation((Message("user", (TextPart("x \ud800"),)),))


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    action = draw(ids)
    same = st.lists(st.floats(allow_nan=False), min_size=len(action), max_size=len(action)).map(tuple)
    return Turn(
        said,
        tw.Action(draw(st.text(max_size=5))),
        draw(st.floats(allow_nan=False)),
        prompt_ids=draw(ids),
        action_ids=action,
        logprobs=draw(same),
        versions=tuple(draw(st.lists(st.integers(-1, 9), min_size=len(action), max_size=len(action)))),
        info={"seen": draw(st.integers())},
    )


def episode(played: tuple[Turn, ...], **fields: Any) -> Episode:
    return Episode("g-0", "demo/Count-v0", tw.TaskSpec("Count", seed=1), "g", played, Outcome.COMPLETED, **fields)


@pytest.mark.slow
@given(st.lists(st.tuples(st.lists(turns(), max_size=4).map(tuple), ids), max_size=3))
def test_episodes_survive_a_round_trip_exactly(given: list[tuple[tuple[Turn, ...], tuple[int, ...]]]) -> None:
    whole = [episode(played, final_prompt_ids=last, fork=Fork("p", ("p",))) for played, last in given]

    back = unpack(pack(whole))

    assert back == whole, "an unpacked episode must equal the packed one"
    numbers = [id for each in back for turn in each.turns for id in (*turn.prompt_ids, *turn.logprobs)]
    assert all(type(number) in (int, float) for number in numbers), "ids and log-probabilities must be plain numbers"


def conversation(count: int, *, full: bool) -> Episode:
    """An episode whose turns each add 20 tokens and sample 20; its context is kept in full, or is the last turn's."""
    played, number = [], 0
    context: tuple[int, ...] = ()
    for _ in range(count):
        new, action = tuple(range(number, number + 20)), tuple(range(number + 20, number + 40))
        prompt = (*context, *new) if full else new
        played.append(Turn(said, tw.Action("a"), 0.0, prompt_ids=prompt, action_ids=action, logprobs=(0.5,) * 20,
                           versions=(1,) * 20))  # fmt: skip
        context, number = (*prompt, *action), number + 40
    return episode(tuple(played))


@pytest.mark.parametrize("full", [True, False])
def test_bytes_grow_linearly_with_the_turns(full: bool) -> None:
    sizes = [len(pack([conversation(count, full=full)])) for count in (20, 40, 80)]

    first, second = sizes[1] - sizes[0], (sizes[2] - sizes[1]) / 2
    assert second < 1.05 * first, f"each further turn must cost the same bytes: {sizes}"


def test_a_prompt_that_history_does_not_begin_costs_its_own_ids() -> None:
    two = conversation(2, full=True)
    rewritten = replace(two, turns=(two.turns[0], replace(two.turns[1], prompt_ids=(7, 8, 9))))

    assert unpack(pack([rewritten])) == [rewritten]


def test_what_cannot_be_pickled_is_refused_with_the_episode() -> None:
    odd = episode((Turn(said, tw.Action("a"), 0.0, info={"f": lambda: 0}),))

    with pytest.raises(ContractError, match=r"episode g-0 cannot be sent to the driver: .*lambda"):
        pack([odd])


def test_ids_that_are_not_integers_are_refused() -> None:
    odd = episode((Turn(said, tw.Action("a"), 0.0, prompt_ids=(1.5,)),))  # type: ignore[arg-type]

    with pytest.raises(ContractError, match="token ids and versions must be integers"):
        pack([odd])


def test_packed_ids_are_smaller_than_pickled_ones() -> None:
    long = conversation(40, full=True)

    assert 3 * len(pack([long])) < len(pickle.dumps(long))


def test_an_action_nested_too_deeply_is_recorded_as_the_environment_reads_it() -> None:
    """Python parses it, but can neither pickle nor write it, which stopped a run."""
    nested: list[Any] = []
    for _ in range(700):
        nested = [nested]
    turn = recorded(said, Decision(tw.Action(tool_calls=(tw.ToolCall("f", {"x": nested}),))), 0.0)
    assert "nested too deeply" in str(turn.action.problem)
    (back,) = unpack(pack([episode((turn,))]))
    assert back.turns == (turn,)
    assert list(from_table(to_table(back))) == [back]


def test_records_of_every_kind_survive() -> None:
    shown = Observation((Message("tool", (TextPart("x"), ImagePart(b"png")), name="f", tool_call_id="1"),))
    called = tw.Action("say", (tw.ToolCall("f", {"x": [1, {"y": None}]}, "1"),), "odd")
    judged = Score(False, {"a": True}, ("row",), ("rule",))
    spec = tw.TaskSpec("Count", level=2, seed=3, split=Split.DEV)
    turn = Turn(shown, called, 1.0, True, True, seat="s", obs_key="k", info={"n": 1}, thoughts="t", seconds_env=0.5)
    whole = replace(episode((turn,)), task=spec, score=judged, final_observation=shown, error="e", attempts=2)

    (back,) = unpack(pack([whole]))

    assert back == whole
    assert type(back.task.split) is Split
    assert back.turns[0].action.tool_calls[0].arguments == {"x": [1, {"y": None}]}
