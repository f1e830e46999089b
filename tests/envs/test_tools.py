"""Tools: a typed function becomes a JSON Schema, and calls are validated against it."""

from __future__ import annotations

import datetime
import enum
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.envs.sampling import random_arguments
from turnwise.envs.tools import describe, shown, tools_of
from turnwise.errors import ContractError, ToolError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(pydantic.BaseModel):
    name: str
    weight: Annotated[float, pydantic.Field(gt=0)] = 1.0
    parts: list[Part] = []


def plain(text: str, number: int, share: float, flag: bool) -> str:
    """Plain types.

    Longer words about it.

    Args:
        text: some text.
        number: how many.
    """
    return f"{text} {number} {share} {flag}"


def optional(name: str | None = None, limit: int = 5, tags: list[str] = []) -> Any:  # noqa: B006 - must be harmless
    """Optional ones."""
    tags.append("x")
    return [name, limit, tags]


def choices(mode: Literal["a", "b"], colour: Colour, size: Literal[1, 2] = 1) -> Any:
    """Choices."""
    return [mode, colour, size]


def nested(part: Part, grid: list[list[int]], counts: dict[str, int], pair: tuple[int, str]) -> Any:
    """Nested types."""
    return [part, grid, counts, pair]


def bounded(
    year: Annotated[int, pydantic.Field(ge=1900)],
    few: Annotated[int, pydantic.Field(gt=0, lt=3)],
    share: Annotated[float, pydantic.Field(ge=0, le=1)],
    code: Annotated[str, pydantic.Field(min_length=3, max_length=4)],
    items: Annotated[list[int], pydantic.Field(min_length=2, max_length=3)],
) -> Any:
    """Bounds."""
    return [year, few, share, code, items]


def clashing(copy: int, json: str, model_config: str, schema: bool, cls: int = 0, validate: int = 0) -> Any:
    """Names that a pydantic model has itself."""
    return [copy, json, model_config, schema, cls, validate]


ALL: list[Callable[..., Any]] = [plain, optional, choices, nested, bounded, clashing]


def called(function: Callable[..., Any], arguments: Any) -> Any:
    return function(**describe(function, function.__name__).validate(arguments))


def test_signature_and_docstring_become_the_description() -> None:
    described = describe(plain, "plain").to_json()
    assert described["function"]["description"] == "Plain types.\nLonger words about it."
    parameters = described["function"]["parameters"]
    assert parameters["required"] == ["text", "number", "share", "flag"]
    assert parameters["properties"]["number"] == {"description": "how many.", "type": "integer"}
    assert parameters["properties"]["flag"] == {"type": "boolean"}
    assert parameters["additionalProperties"] is False
    json.dumps(described)


def test_optional_literal_and_enum_parameters_say_what_they_take() -> None:
    properties = describe(optional, "optional").parameters["properties"]
    assert properties["limit"]["default"] == 5
    assert {"type": "null"} in properties["name"]["anyOf"]
    parameters = describe(choices, "choices").parameters
    assert parameters["properties"]["mode"]["enum"] == ["a", "b"]
    assert parameters["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert parameters["required"] == ["mode", "colour"]


def test_arguments_arrive_with_the_types_of_the_signature() -> None:
    assert called(plain, {"text": "t", "number": 2, "share": 1, "flag": True}) == "t 2 1.0 True"
    assert called(choices, {"mode": "a", "colour": "blue", "size": 2}) == ["a", Colour.BLUE, 2]
    part, grid, counts, pair = called(
        nested,
        {"part": {"name": "p", "parts": [{"name": "q"}]}, "grid": [[1], []], "counts": {"a": 1}, "pair": [1, "x"]},
    )
    assert part.parts[0].weight == 1.0
    assert (grid, counts, pair) == ([[1], []], {"a": 1}, (1, "x"))


def test_parameters_may_be_called_what_they_like() -> None:
    arguments = {"copy": 1, "json": "j", "model_config": "m", "schema": False, "cls": 4, "validate": 5}
    assert called(clashing, arguments) == [1, "j", "m", False, 4, 5]
    assert set(describe(clashing, "clashing").parameters["properties"]) == set(arguments)


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    assert called(optional, {}) == [None, 5, ["x"]]
    assert called(optional, {}) == [None, 5, ["x"]]


def test_what_a_tool_does_to_its_arguments_stays_out_of_the_record() -> None:
    given: dict[str, Any] = {"tags": ["a"]}
    assert called(optional, given)[2] == ["a", "x"]
    assert given == {"tags": ["a"]}


BAD: list[tuple[Callable[..., Any], Any, str]] = [
    (plain, {"text": "t"}, "argument 'number' is missing"),
    (plain, {"text": "t", "number": "two", "share": 1, "flag": True}, "argument 'number'.*got \"'two'\"|'two'"),
    (plain, {"txt": "t"}, r"unknown argument 'txt' \(takes text, number, share, flag\)"),
    (choices, {"mode": "c", "colour": "red"}, "argument 'mode'.*'a' or 'b'"),
    (nested, {"part": {"name": 1}, "grid": [], "counts": {}, "pair": [1, "x"]}, "argument 'part.name'"),
    (nested, {"part": {"name": "p"}, "grid": [["x"]], "counts": {}, "pair": [1, "x"]}, "argument 'grid.0.0'"),
    (plain, [1, 2], "arguments"),
    (plain, "text", "arguments"),
    (plain, {1: 2}, "."),
]


@pytest.mark.parametrize(("function", "arguments", "words"), BAD, ids=[f"{f.__name__}-{a!r:.30}" for f, a, _ in BAD])
def test_what_does_not_fit_is_refused_with_what_to_change(function: Any, arguments: Any, words: str) -> None:
    with pytest.raises(ToolError, match=words) as error:
        describe(function, function.__name__).validate(arguments)
    assert len(str(error.value)) < 600


def test_a_huge_wrong_argument_is_quoted_shortly() -> None:
    with pytest.raises(ToolError) as error:
        describe(plain, "plain").validate({"text": "t", "number": "x" * 10**6, "share": 1, "flag": True})
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("function", ALL, ids=lambda function: function.__name__)
@given(seed=st.integers(0, 10**6))
def test_random_arguments_fit(function: Callable[..., Any], seed: int) -> None:
    described = describe(function, function.__name__)
    arguments = random_arguments(described.parameters, tw.Rng(seed))
    described.validate(arguments)
    assert arguments == random_arguments(described.parameters, tw.Rng(seed)), "one seed, one draw"
    json.dumps(arguments)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
@pytest.mark.slow
def test_validation_answers_or_refuses_and_nothing_else(arguments: Any) -> None:
    for function in ALL:
        try:
            describe(function, function.__name__).validate(arguments)
        except ToolError as error:
            assert str(error)  # noqa: PT017


# -- what an author may get wrong --------------------------------------------------------------------------------


def undocumented(x: int) -> int:
    return x


def untyped(x) -> int:  # type: ignore[no-untyped-def]
    """Untyped."""
    return 0


def starred(*x: int) -> int:
    """Starred."""
    return 0


def unresolved(x: NoSuchType) -> int:  # type: ignore[name-defined]  # noqa: F821
    """Unresolved."""
    return 0


def without_json(x: threading_lock_like) -> int:
    """No JSON form."""
    return 0


class threading_lock_like:
    pass


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (undocumented, "needs a docstring"),
        (untyped, "'x' needs a type"),
        (starred, "'x' must be a plain named parameter"),
        (unresolved, "cannot be resolved"),
        (without_json, "has no JSON Schema"),
    ],
)
def test_a_tool_that_an_agent_could_not_use_is_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(ContractError, match=words):
        describe(function, "bad")


def test_a_method_that_is_no_tool_is_refused_with_its_line() -> None:
    class Shop:
        @tw.tool
        def buy(self, what) -> str:  # type: ignore[no-untyped-def]
            """Buy."""
            return str(what)

    line = Shop.buy.__code__.co_firstlineno
    with pytest.raises(ContractError, match=rf"'what' needs a type \(at {__file__}:{line} in .*Shop\.buy\)"):
        tools_of(Shop)


def lookup(word: str | list[Any]) -> str:
    """Look a word up."""
    return str(word)


class Base:
    @tw.tool
    def first(self) -> str:
        """First."""
        return "first"

    @tw.tool(name="renamed", ends=True)
    def second(self) -> str:
        """Second."""
        return "second"


class Derived(Base):
    @tw.tool
    def third(self) -> str:
        """Third."""
        return "third"

    def first(self) -> str:
        return "no tool any more"


def test_tools_come_in_order_of_definition_and_follow_inheritance() -> None:
    assert [(tool.name, tool.ends) for tool in tools_of(Base)] == [("first", False), ("renamed", True)]
    assert [tool.name for tool in tools_of(Derived)] == ["renamed", "third"]
    assert tools_of(Derived)[1].bind(Derived()).function() == "third"


def test_two_tools_of_one_name_are_refused() -> None:
    class Twins(Base):
        @tw.tool(name="first")
        def another(self) -> str:
            """Another."""
            return ""

    with pytest.raises(ContractError, match="two tools named 'first'"):
        tools_of(Twins)


def test_a_static_tool_is_refused() -> None:
    class Static:
        @staticmethod
        @tw.tool
        def alone() -> str:
            """Alone."""
            return ""

    with pytest.raises(ContractError, match="plain method"):
        tools_of(Static)


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property])
def test_a_mark_above_something_else_than_a_method_is_refused_and_not_lost(kind: Any) -> None:
    def alone() -> str:
        """Alone."""
        return ""

    said = rf"'alone' is a {kind.__name__}; remove @{kind.__name__}, and write def alone\(self, ...\) \(at .*test_tools"
    with pytest.raises(ContractError, match=said):
        tw.tool(kind(alone))


# -- results -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        (None, "done"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (Part(name="ü"), '{"name": "ü", "weight": 1.0, "parts": []}'),
        (Colour.RED, '"red"'),
        (datetime.date(2020, 1, 2), '"2020-01-02"'),
        ([Part(name="p")], '[{"name": "p", "weight": 1.0, "parts": []}]'),
        (True, "true"),
    ],
)
def test_results_become_text(result: Any, text: str) -> None:
    (part,) = shown(result, describe(lookup, "lookup"))
    assert isinstance(part, tw.TextPart)
    assert part.text == text


@pytest.mark.parametrize("result", [np.arange(3), object(), b"\xff"])
def test_a_result_without_a_json_form_names_the_tools_line(result: Any) -> None:
    message = (
        rf"'lookup' returned a {type(result).__name__}, which cannot be converted to JSON .*test_tools.py:\d+ in lookup"
    )
    with pytest.raises(ContractError, match=message):
        shown(result, describe(lookup, "lookup"))


@pytest.mark.parametrize(
    "result",
    [tw.running("x", reward=0.5), tw.Score(success=True), tw.Observation.of("x"), tw.message("tool", "x")],
    ids=lambda result: type(result).__name__,
)
def test_a_step_is_not_a_result_of_a_tool(result: Any) -> None:
    """The agent read it as JSON, reward and all, and its reward and its end were lost."""
    message = rf"'lookup' returned a {type(result).__name__}, .*override ends_with.* act .*test_tools.py:\d+ in lookup"
    with pytest.raises(ContractError, match=message):
        shown(result, describe(lookup, "lookup"))


def test_a_name_needs_its_keyword() -> None:
    with pytest.raises(ContractError, match=r"write @tw.tool\(name='go'\)"):
        tw.tool("go")  # type: ignore[call-overload]


def test_a_tool_without_self_is_refused_with_its_line() -> None:
    class Selfless:
        @tw.tool
        def go(n: int) -> str:  # type: ignore[misc]
            """Go."""
            return ""

    with pytest.raises(ContractError, match=r"'go' has no self; write def go\(self, ...\) .*test_tools.py:\d+"):
        tools_of(Selfless)


@pytest.mark.parametrize("odd", ["\ud800", ["a", "\udfff"], {"\ud83d": 1}])
def test_half_of_a_surrogate_pair_reaches_no_tool(odd: Any) -> None:
    with pytest.raises(ToolError, match="half of a surrogate pair"):
        describe(lookup, "lookup").validate({"word": odd})
    assert describe(lookup, "lookup").validate({"word": "🙂"}) == {"word": "🙂"}


def test_arguments_nested_without_end_are_refused() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    for arguments in ({"word": nested}, nested):
        with pytest.raises(ToolError, match="nested too deeply"):
            describe(lookup, "lookup").validate(arguments)
