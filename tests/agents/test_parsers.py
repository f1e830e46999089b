"""Action parsers: what is written is read back, and nothing a model writes makes one raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Action, ToolCall
from turnwise.agents.parsers import PARSERS, TaggedParser, TextParser, action_parser
from turnwise.agents.thoughts import thoughts_in, without_thoughts
from turnwise.agents.tool_calls import ToolCallParser
from turnwise.errors import ModelError, UsageError

TAGS = ["<action>", "</action>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
TAGS += ["<|python_tag|>", ";", "[TOOL_CALLS]", "[ARGS]", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"]
TAGS += ["<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<|tool_call|>", "<|/tool_call|>"]
TAGS += ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<function=a>", "<parameter=b>", "</parameter>"]
JSON = ['{"name": "a", "arguments": {}}', '{"name":', "{}", "[", "]", "null", '"', "\\ud800", "1e999", "NaN", "\n"]
hostile = st.lists(st.one_of(st.sampled_from(TAGS + JSON), st.text(max_size=8)), max_size=14).map("".join)
plain = st.text(alphabet=st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=30)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=8,
)
calls = st.lists(st.tuples(plain.filter(bool), st.dictionaries(plain, values, max_size=3)), min_size=1, max_size=4)


@given(text=hostile, name=st.sampled_from(sorted(PARSERS)))
def test_nothing_a_model_writes_makes_a_parser_raise(text: str, name: str) -> None:
    action = action_parser(name).parse(text)
    assert isinstance(action, Action)
    if action.problem is None:
        assert "<think>" not in action.text, "a thought is no part of an action"
        json.dumps([dict(call.arguments) for call in action.tool_calls], allow_nan=False).encode()
    else:
        assert not action.tool_calls, "an action that could not be read must not act"
        assert len(action.problem) < 400, "a problem is shown to the agent: short"


@pytest.mark.parametrize(
    "source",
    [
        "[" * 100_000,
        '{"name": "a", "arguments": ' + "[" * 50_000,
        '{"name": "a", "arguments": {"n": ' + "9" * 5000 + "}}",
        '{"name": "a", "arguments": {"x": NaN}}',
        '{"name": "a", "arguments": {"x": "\\ud800"}}',
        '{"name": 3, "arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "a", "arguments": [1]}',
        '{"name": "a", "arguments": "x"}',
        '["name"]',
        "look(door)",
        "",
        '{"name": "a", "arguments": {}} trailing',
    ],
)
def test_a_malformed_call_becomes_a_problem_that_says_how_to_write_it(source: str) -> None:
    action = ToolCallParser().parse(f"<tool_call>{source}</tool_call>")
    assert action.problem is not None
    assert ToolCallParser.HOW in action.problem
    assert not action.tool_calls


@pytest.mark.slow
@given(said=plain, wanted=calls, kind=st.sampled_from(["tools", "llama", "phi"]))
def test_calls_are_read_back_as_they_were_written(
    said: str, wanted: list[tuple[str, dict[str, Any]]], kind: str
) -> None:
    """In the dialects that write names as JSON, for any name; ``test_tool_dialects`` has the others."""
    action = Action(
        said.strip(), tuple(ToolCall(name, arguments, f"call_{i}") for i, (name, arguments) in enumerate(wanted, 1))
    )
    parser = action_parser(kind)
    assert parser.parse(parser.format(action)) == action


@given(plain.map(str.strip))
def test_text_is_read_back_as_it_was_written(text: str) -> None:
    for name in set(PARSERS) - {"search"}:  # whose only actions are a search and an answer
        parser = action_parser(name)
        assert parser.parse(parser.format(Action(text))) == Action(text), f"{name} does not read what it writes"


def test_calls_in_the_manner_of_hermes_and_qwen() -> None:
    text = (
        "<think>I should <tool_call>not count</tool_call></think>\nLooking.\n"
        '<tool_call>\n{"name": "look", "arguments": {"at": "door"}}\n</tool_call>\n'
        '<tool_call>{"name": "wait", "parameters": {}}</tool_call>'
    )
    assert ToolCallParser().parse(text) == Action(
        "Looking.", (ToolCall("look", {"at": "door"}, "call_1"), ToolCall("wait", {}, "call_2"))
    )
    assert ToolCallParser().parse("Just talk.") == Action("Just talk.")
    second = ToolCallParser().parse('<tool_call>{"name": "a"}</tool_call><tool_call>{</tool_call>')
    assert (second.problem or "").startswith("Tool call 2: not valid JSON")


@pytest.mark.parametrize("text", ['<tool_call>{"name": "a"}', '{"name": "a"}</tool_call>', "<tool_call>" * 3])
def test_a_call_that_was_not_closed_is_a_problem(text: str) -> None:
    assert "without its pair" in (ToolCallParser().parse(text).problem or "")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<action>left</action>", "left"),
        ("<think>right? <action>right</action></think>so <action> left\n</action>!", "left"),
        ("thinking aloud</think><action>left</action>", "left"),
        ("<action></action>", ""),
    ],
)
def test_a_tagged_action_is_found(text: str, action: str) -> None:
    assert TaggedParser().parse(text) == Action(action)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("left", "found none"),
        ("<action>left", "found none"),
        ("<action>left</action><action>right</action>", "found 2"),
        ("<action>a<action>b</action>", "nested"),
        ("<think>hm <action>left</action>", "never closed"),
    ],
)
def test_an_action_that_is_not_there_once_is_a_problem(text: str, word: str) -> None:
    problem = TaggedParser().parse(text).problem
    assert problem is not None
    assert word in problem
    assert "<action>your action</action>" in problem, "the agent must be told how to write it"


def test_text_is_taken_whole_but_for_thoughts() -> None:
    assert TextParser().parse(" go left\n") == Action(" go left\n")
    assert TextParser().parse("<think>left is a wall</think>\n\nright\n") == Action("right")
    assert "never closed" in (TextParser().parse("<think>is left a").problem or "")


@given(hostile)
def test_thoughts_are_removed_once_and_for_all(text: str) -> None:
    rest, _ = without_thoughts(text)
    assert "</think>" not in rest
    assert without_thoughts(rest)[0] == rest, "removing thoughts twice removes no more"


def test_parsers_by_name() -> None:
    parser = TextParser()
    assert action_parser(parser) is parser
    assert isinstance(action_parser("tools"), ToolCallParser)
    with pytest.raises(UsageError, match="'json' is unknown; choose one of auto, text, tagged, search, tools"):
        action_parser("json")
    with pytest.raises(ModelError, match="use parser 'auto'"):
        TaggedParser().format(Action(tool_calls=(ToolCall("look"),)))


@pytest.mark.parametrize(
    ("text", "thoughts"),
    [
        ("Hello <think>a</think> answer", "a"),
        ("a</think>up", "a"),
        ("<think>a</think>one<think>b</think>two", "a\nb"),
        ("<think>a</think>one<think>b", "a\nb"),
        ("plain", ""),
    ],
)
def test_thoughts_are_what_stands_inside_them(text: str, thoughts: str) -> None:
    assert thoughts_in(text) == thoughts
