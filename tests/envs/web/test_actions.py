"""Actions as text are read without running anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.envs.certify.attacks import CODE
from turnwise.envs.messages import ToolCall
from turnwise.envs.web.acting import WebTools, parameters
from turnwise.envs.web.actions import read
from turnwise.errors import UnparseableError

KNOWN = parameters(WebTools)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("click('12')", [("click", {"id": "12"})]),
        ('fill("7", "it\'s \\"new\\"")', [("fill", {"id": "7", "value": 'it\'s "new"'})]),
        ("select_option('3', ['a', 'b'])", [("select_option", {"id": "3", "options": ["a", "b"]})]),
        ("click('1')\nscroll(0, -200)", [("click", {"id": "1"}), ("scroll", {"delta_x": 0, "delta_y": -200})]),
        ("click(id='4', button='right')", [("click", {"id": "4", "button": "right"})]),
        ("I click it.\n```python\ngo_back()\n```", [("go_back", {})]),
        ("```\nnoop(500)\n```", [("noop", {"wait_ms": 500})]),
        ("```click('2')```", [("click", {"id": "2"})]),
    ],
)
def test_calls_are_read(text: str, calls: list[tuple[str, dict[str, object]]]) -> None:
    assert read(text, KNOWN) == tuple(ToolCall(name, arguments) for name, arguments in calls)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would click the button.",
        "click",
        "click(12",
        "x = click('1')",
        "__import__('os').system('true')",
        "click(open('/etc/passwd').read())",
        "click('1').real",
        "[click('1') for _ in range(10)]",
        "click(*['1'])",
        "click(**{'id': '1'})",
        "click('1', 'left', 'twice', 'more')",
        "click('1', id='2')",
        "fly('1')",
        "lambda: click('1')",
        "click(" + "(" * 5000,
        "click('" + "a" * 30_000 + "')",
        "0x" + "F" * 4000,
        "-" * 900 + "1",
        *(f"click({text})" for text in CODE.values()),
    ],
)
def test_what_is_no_action_is_told_so(text: str) -> None:
    with pytest.raises(UnparseableError) as caught:
        read(text, KNOWN)
    assert len(str(caught.value)) < 600, "an error must not give back all that was sent"


def test_what_is_refused_is_shown_as_it_was_written() -> None:
    with pytest.raises(UnparseableError, match=r"'x  = 1' is not an action"):
        read("click('é')\nx  = 1", KNOWN)
    with pytest.raises(UnparseableError, match=r"'a . b' is not a value"):
        read("click('é'); click(a . b)", KNOWN)


@given(st.text(max_size=80))
def test_no_text_does_anything_else(text: str) -> None:
    try:
        calls = read(text, KNOWN)
    except UnparseableError:
        return
    assert all(call.name in KNOWN for call in calls)


VALUES = st.one_of(st.text(max_size=20), st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@given(st.sampled_from(sorted(KNOWN)), st.lists(VALUES, max_size=2))
def test_what_is_written_is_read_again(name: str, values: list[object]) -> None:
    names = KNOWN[name]
    values = values[: len(names)]
    text = f"{name}({', '.join(map(repr, values))})"
    assert read(text, KNOWN) == (ToolCall(name, dict(zip(names, values, strict=False))),)
