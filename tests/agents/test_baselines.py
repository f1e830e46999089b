"""Baselines: each has exactly the knowledge that it claims, and none has more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Action, Observation, ToolCall
from turnwise.agents.baselines import (
    ConstantAgent,
    Demonstration,
    MemorizerAgent,
    MemorylessAgent,
    TemplateAgent,
    edited,
    fixed_sequences,
    replacements,
)
from turnwise.errors import UsageError
from turnwise.tasks.rng import Rng

from .fakes import context


def demonstration(*turns: tuple[str, str | ToolCall]) -> Demonstration:
    return Demonstration(
        tuple(Observation.of(text) for text, _ in turns), tuple(Action.of(action) for _, action in turns)
    )


RENAME = demonstration(
    ("Rename every file in inbox that ends in .log to .old.", ToolCall("run", {"command": "mv inbox .log .old"})),
    ("Exit code 0.", ToolCall("submit")),
)
COUNT = demonstration(
    ("Count the lines of store that begin with the word ok.", ToolCall("run", {"command": "grep -c ok store"})),
    ("Exit code 0.", ToolCall("submit")),
)


async def acts(agent: Any, *observations: str) -> list[Action]:
    session = agent.start(context())
    return [(await session.act(Observation.of(text))).action for text in observations]


async def test_a_constant_policy_looks_at_nothing_and_repeats_its_last_action() -> None:
    agent = ConstantAgent([Action("up"), Action("down")])
    assert await acts(agent, "a", "b", "c") == [Action("up"), Action("down"), Action("down")]
    assert await acts(agent, "c") == [Action("up")], "state leaked from one session into another"


async def test_a_memorizer_replays_the_nearest_demonstration_as_it_was() -> None:
    agent = MemorizerAgent([RENAME, COUNT])
    for known in (RENAME, COUNT):
        assert await acts(agent, *(each.text for each in known.observations)) == list(known.actions)
    first, *_ = await acts(agent, "Rename every file in depot that ends in .txt to .md.")
    assert first == RENAME.actions[0], "a memorizer does not adapt what it remembers"


async def test_a_template_is_filled_with_the_literals_that_stand_in_its_places() -> None:
    agent = TemplateAgent([RENAME, COUNT])
    first, second = await acts(agent, "Rename every file in depot that ends in .txt to .md.", "Exit code 0.")
    assert first.tool_calls[0].arguments == {"command": "mv depot .txt .md"}
    assert second == Action.of(ToolCall("submit"))


async def test_a_template_copies_from_later_observations_and_keeps_types() -> None:
    shown = demonstration(
        ("Which item is cheapest?", ToolCall("list")), ("id 7: tea", ToolCall("open", {"item": 7, "deep": True}))
    )
    _, second = await acts(TemplateAgent([shown]), "Which item is cheapest?", "id 12: milk")
    assert second.tool_calls[0].arguments == {"item": 12, "deep": True}


async def test_a_memoryless_policy_depends_on_the_last_observation_alone() -> None:
    agent = MemorylessAgent([demonstration(("at 1, 2: go 'left'", "left"), ("at 9, 9", "stop"), ("at 9, 9", "stop"))])
    assert await acts(agent, "at 9, 9", "at 1, 2: go 'left'") == [Action("stop"), Action("left")]
    masked, unknown = await acts(agent, "at 5, 5: go 'left'", "somewhere else")
    assert masked == Action("left"), "numbers and quoted text are masked where the text is new"
    assert unknown == Action("stop"), "of an observation of no known kind, the most frequent action is left"


def test_fixed_sequences_are_distinct_begin_with_frequent_ones_and_repeat() -> None:
    found = fixed_sequences([RENAME, COUNT], 30, Rng("test"))
    assert found[0] == (Action.of(ToolCall("submit")),)
    assert RENAME.actions in found
    assert len(found) <= 30
    assert len({repr(each) for each in found}) == len(found)
    assert found == fixed_sequences([RENAME, COUNT], 30, Rng("test"))


def test_case_is_carried_over_to_capitals() -> None:
    action = Action.of(ToolCall("run", {"command": "s/ larch / LARCH /"}))
    assert edited(action, {"larch": "birch"}).tool_calls[0].arguments == {"command": "s/ birch / BIRCH /"}


@pytest.mark.slow
@given(st.text(max_size=60))
def test_equal_texts_need_no_replacement(text: str) -> None:
    assert replacements(text, text) == {}
    assert edited(Action(text), {}) == Action(text)


@pytest.mark.slow
@given(st.dictionaries(st.from_regex(r"\A[a-z]{1,8}\Z"), st.from_regex(r"\A[0-9a-z]{1,8}\Z"), max_size=5), st.text())
def test_editing_is_total(edits: dict[str, str], text: str) -> None:
    call = ToolCall("act", {"text": text, "n": 3, "x": 2.5, "on": True, "none": None, "parts": [text, {"a": text}]})
    assert edited(Action.of(call), edits).tool_calls[0].arguments.keys() == call.arguments.keys()


@pytest.mark.parametrize("kind", [MemorizerAgent, TemplateAgent, MemorylessAgent, ConstantAgent])
def test_nothing_to_learn_from_is_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match="at least one"):
        kind([])


def test_a_demonstration_has_an_observation_for_each_action() -> None:
    with pytest.raises(UsageError, match="1 observations and 0 actions"):
        Demonstration((Observation.of("x"),), ())
