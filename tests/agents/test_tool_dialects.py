"""Dialects of tool calls: every published way of writing one is read, and a bad call says how to write a good one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Action, ToolCall
from turnwise.agents.parsers import parser_for
from turnwise.agents.thoughts import Delimiters
from turnwise.agents.tool_dialects import CALL_PARSERS, dialect_of

SCHEMA: dict[str, Any] = {
    "name": "look",
    "parameters": {
        "properties": {"at": {"type": "string"}, "n": {"type": "integer"}, "why": {"anyOf": [{"type": "string"}]}}
    },
}
LOOK = ("look", {"at": "door"})
SPOKEN = [
    ("llama", '{"name": "look", "parameters": {"at": "door"}}', "", [LOOK]),
    ("llama", '{"type": "function", "name": "look", "parameters": {"at": "door"}}', "", [LOOK]),
    ("llama", '{"name": "look", "parameters": {"at": "door"}}; {"name": "wait"}', "", [LOOK, ("wait", {})]),
    ("llama", 'Well.<|python_tag|>{"name": "look", "parameters": {"at": "door"}}', "Well.", [LOOK]),
    ("llama", '{"name": "look", "parameters": {"at": "<|python_tag|>"}}', "", [("look", {"at": "<|python_tag|>"})]),
    ("llama", "I would look at the {door}.", "I would look at the {door}.", []),
    ("llama", '{"door": 1}', '{"door": 1}', []),
    ("mistral", '[TOOL_CALLS] [{"name": "look", "arguments": {"at": "door"}, "id": "a1B2c3D4e"}]', "", [LOOK]),
    ("mistral", 'Well.[TOOL_CALLS]look[ARGS]{"at": "door"}[TOOL_CALLS]look[ARGS]{}', "Well.", [LOOK, ("look", {})]),
    ("mistral", '[TOOL_CALLS]look[CALL_ID]a1B2c3D4e[ARGS]{"at": "door"}', "", [LOOK]),
    (
        "deepseek",
        "Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n"
        '{"at": "door"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "Well.",
        [LOOK],
    ),
    (
        "deepseek",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{"at": "door"}<｜tool▁call▁end｜>'
        '<｜tool▁call▁begin｜>look<｜tool▁sep｜>{"at": "```json"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "",
        [LOOK, ("look", {"at": "```json"})],
    ),
    ("glm", "<tool_call>look<arg_key>at</arg_key><arg_value>5</arg_value></tool_call>", "", [("look", {"at": "5"})]),
    ("glm", "<tool_call>look\n<arg_key>n</arg_key>\n<arg_value>5</arg_value>\n</tool_call>", "", [("look", {"n": 5})]),
    ("glm", "<tool_call>look</tool_call>", "", [("look", {})]),
    ("phi", 'Well. <|tool_call|>[{"name": "look", "arguments": {"at": "door"}}]<|/tool_call|>', "Well.", [LOOK]),
    ("phi", 'Well. <|tool_call|>[{"name": "look", "arguments": {"at": "door"}}]', "Well.", [LOOK]),
    (
        "seed",
        "<seed:tool_call>\n<function=look>\n<parameter=at>a\nb</parameter>\n</function>\n</seed:tool_call>",
        "",
        [("look", {"at": "a\nb"})],
    ),
    (
        "qwen-coder",
        "<tool_call>\n<function=look>\n<parameter=at>\na\nb\n</parameter>\n<parameter=n>\n5\n</parameter>\n</function>\n"
        "</tool_call>",
        "",
        [("look", {"at": "a\nb", "n": 5})],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "said", "calls"), SPOKEN)
def test_every_published_form_is_read(name: str, text: str, said: str, calls: list[Any]) -> None:
    for thought in ("", "<think>\nlook first\n</think>\n\n"):
        action = CALL_PARSERS[name]([{"type": "function", "function": SCHEMA}]).parse(thought + text)
        assert action.problem is None
        assert (action.text, [(call.name, call.arguments) for call in action.tool_calls]) == (said, calls)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("llama", "Well.<|python_tag|> "),
        ("llama", '<|python_tag|>brave_search.call(query="door")'),
        ("llama", '{"name": "look", "parameters": '),
        ("llama", '{"name": "look", "parameters": [1]}'),
        ("mistral", "[TOOL_CALLS]look"),
        ("mistral", '[TOOL_CALLS]look[ARGS]{"at"'),
        ("mistral", "[TOOL_CALLS][1]"),
        ("deepseek", "<｜tool▁calls▁begin｜>look<｜tool▁calls▁end｜>"),
        ("deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        ("deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{}"),
        ("glm", "<tool_call>look<arg_key>at</arg_key></tool_call>"),
        ("glm", "<tool_call></tool_call>"),
        ("phi", "<|tool_call|>[{}]<|/tool_call|>"),
        ("phi", "<|tool_call|>[]"),
        ("qwen-coder", "<tool_call>look</tool_call>"),
    ],
)
def test_a_bad_call_says_how_to_write_a_good_one(name: str, text: str) -> None:
    parser = CALL_PARSERS[name]([SCHEMA])
    action = parser.parse(text)
    assert action.problem is not None
    assert action.problem.endswith(parser.how)
    assert not action.tool_calls
    example = parser.how.removesuffix(".").partition(" as ")[2] or parser.how.removesuffix(".").partition("but ")[2]
    assert [call.name for call in parser.parse(example).tool_calls] == ["tool"], "the advice must be right itself"


words = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=8)
simple = st.dictionaries(words, st.none() | st.booleans() | st.integers() | st.lists(words, max_size=2), max_size=3)


@given(st.sampled_from(sorted(CALL_PARSERS)), st.lists(st.tuples(words, simple), min_size=1, max_size=3), st.booleans())
def test_what_a_dialect_writes_it_reads(name: str, wanted: list[tuple[str, dict[str, Any]]], newer: bool) -> None:
    source = {"mistral": "[ARGS]", "deepseek": "```json"}.get(name, "") if newer else ""
    parser = parser_for(name, [], source=source)
    calls = tuple(ToolCall(tool, given) for tool, given in wanted)
    read = parser.parse(parser.format(Action("So:", calls)))
    assert read.problem is None
    assert (read.text, [(call.name, call.arguments) for call in read.tool_calls]) == ("So:", wanted)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": ["string", "null"]}, "42", "42"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"type": "integer"}, "1", 1),
        (True, "1", 1),
    ],
)
def test_an_argument_in_a_tag_has_the_type_of_its_schema(schema: Any, text: str, value: Any) -> None:
    parser = CALL_PARSERS["seed"]([{"name": "look", "parameters": {"properties": {"x": schema}}}])
    call = f"<seed:tool_call><function=look><parameter=x>{text}</parameter></function></seed:tool_call>"
    assert parser.parse(call).tool_calls[0].arguments == {"x": value}


def test_a_mark_inside_of_an_argument_is_text() -> None:
    calls = (ToolCall("look", {"at": "see [ARGS]\n"}),)
    assert CALL_PARSERS["mistral"]([]).parse(
        '[TOOL_CALLS][{"name": "look", "arguments": {"at": "see [ARGS]\\n"}}]'
    ) == (Action("", (ToolCall("look", calls[0].arguments, "call_1"),)))
    seed = CALL_PARSERS["seed"]([SCHEMA])
    assert seed.parse(seed.format(Action(tool_calls=calls))).tool_calls[0].arguments == calls[0].arguments


def test_the_template_counts_before_the_vocabulary() -> None:
    distilled = "{{ '<｜tool▁calls▁begin｜>' }}"
    assert dialect_of(distilled, "<tool_call> </tool_call> <|python_tag|>") == "deepseek"
    assert dialect_of("{{ messages }}", "<|tool_call|> <|end|>") == "phi"
    assert dialect_of("{{ messages }}", "<|im_end|>") is None


def test_thoughts_of_other_families_are_read_where_the_model_has_them() -> None:
    kimi = Delimiters.of("{{ '◁think▷' }}")
    assert kimi.unified("◁think▷a◁/think▷b") == "<think>a</think>b"
    assert kimi.unified("a</think>b", opened=True) == "<think>a</think>b"
    assert kimi.opened_by("assistant◁think▷\n")
    assert Delimiters.of("").unified("◁think▷a◁/think▷b") == "◁think▷a◁/think▷b", "no other model's text is touched"
