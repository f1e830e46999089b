"""Search-R1's tags: the first search or answer counts, and information that a model invents is not an action."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Action, ToolCall
from turnwise.agents.context import MarkovianSummary, Round, context_strategy
from turnwise.agents.parsers import SearchTagsParser, action_parser
from turnwise.agents.transcript import Utterance
from turnwise.envs.messages import Message, Observation
from turnwise.errors import ModelError, UsageError

PARSER = SearchTagsParser()
TAGS = ["think", "search", "answer", "information"]
PIECES = st.one_of(
    st.sampled_from([f"<{slash}{tag}>" for tag in TAGS for slash in ("", "/")]), st.text(max_size=6), st.just("\n")
)
WORDS = st.text(alphabet=st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=30)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<search>culm</search>", ("search", {"query": "culm"})),
        ("<answer>\n Culm </answer>", ("answer", {"text": "Culm"})),
        ("<think>a <answer>no</answer></think><search>culm</search>", ("search", {"query": "culm"})),
        ("opened by the prompt <search>no</search></think> <answer>yes</answer>", ("answer", {"text": "yes"})),
        ("<search>a</search><information>x</information><answer>b</answer>", ("search", {"query": "a"})),
        ("<answer>a</answer><answer>b</answer>", ("answer", {"text": "a"})),
        ("<information><answer>b</answer></information><search>a</search>", ("search", {"query": "a"})),
        ("<search>a</search><think>never closed", ("search", {"query": "a"})),
        ("<search></search>", ("search", {"query": ""})),
        ("<search>1 < 2</search>", ("search", {"query": "1 < 2"})),
    ],
)
def test_the_first_action_counts(text: str, wanted: tuple[str, dict[str, str]]) -> None:
    (call,) = PARSER.parse(text).tool_calls
    assert (call.name, dict(call.arguments)) == wanted


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "There is no action"),
        ("Culm", "There is no action"),
        ("<think>a", "never closed"),
        ("<think><search>a</search>", "never closed"),
        ("<search>a", "<search> has no pair"),
        ("a</answer>", "</answer> has no pair"),
        ("<search>a</answer>", "has no pair"),
        ("<search>unclosed <answer>b</answer>", "<search> has no pair"),
        ("<answer>unclosed <search>b</search>", "<answer> has no pair"),
        ("<search>a <answer>b</answer></search>", "One tag stands in another"),
        ("<information><answer>b</answer>", "has no pair"),
        ("<SEARCH>a</SEARCH>", "There is no action"),
    ],
)
def test_what_is_no_action_is_answered_with_how_to_write_one(text: str, answer: str) -> None:
    action = PARSER.parse(text)
    assert not action.tool_calls
    assert answer in (action.problem or "")
    assert "<search>" in (action.problem or "")


@given(st.lists(PIECES, max_size=12).map("".join))
def test_nothing_makes_it_raise_and_something_always_comes_of_it(text: str) -> None:
    action = PARSER.parse(text)
    assert (len(action.tool_calls) == 1) != (action.problem is not None)


@given(WORDS, st.sampled_from([("search", "query"), ("answer", "text")]), st.lists(PIECES, max_size=5).map("".join))
def test_what_it_writes_it_reads_whatever_follows(words: str, kind: tuple[str, str], after: str) -> None:
    name, argument = kind
    written = PARSER.format(Action(tool_calls=(ToolCall(name, {argument: words}),)))
    if "</think>" in after and "<think>" not in after.partition("</think>")[0]:
        after = ""  # closes a thought that the prompt would have opened
    (call,) = PARSER.parse(written + after).tool_calls
    assert (call.name, call.arguments[argument]) == (name, words.strip())


@pytest.mark.parametrize(
    "action",
    [
        Action("text alone"),
        Action(tool_calls=(ToolCall("open", {"id": "a"}),)),
        Action(tool_calls=(ToolCall("search", {"query": "a", "k": 3}),)),
        Action(tool_calls=(ToolCall("answer", {"text": "a"}), ToolCall("answer", {"text": "b"}))),
    ],
)
def test_it_does_not_write_what_tags_cannot_say(action: Action) -> None:
    with pytest.raises(ModelError, match="search"):
        PARSER.format(action)


@pytest.mark.parametrize("words", ["a </search> b", "<answer>", "a </think> b", "</search><answer>b</answer>"])
def test_it_does_not_write_what_it_would_not_read_back(words: str) -> None:
    with pytest.raises(ModelError, match="read back"):
        PARSER.format(Action(tool_calls=(ToolCall("search", {"query": words}),)))


@pytest.mark.parametrize(
    "piece",
    [
        "<search>",
        "<answer>",
        "<information>",
        "<think>",
        "</think>",
        "</search>",
        "<think></think>",
        "<information>a</information>",
    ],
)
@pytest.mark.timeout(90)  # a guard: to read the text once for every tag takes minutes, once takes a second
def test_a_text_is_read_once_and_not_once_for_every_tag(piece: str) -> None:
    for text in (piece * 40_000, "<search>" + piece * 40_000, piece * 40_000 + "<search>"):
        PARSER.parse(text)


def test_it_has_a_name() -> None:
    assert isinstance(action_parser("search"), SearchTagsParser)


def rounds(*said: str) -> list[Round]:
    """A conversation in which observations are numbered."""
    observations = [Observation.of(f"told {n}") for n in range(len(said) + 1)]
    spoken = [Utterance((1,), text, closed=True) for text in said]
    return [*(Round(o, s) for o, s in zip(observations, spoken, strict=False)), Round(observations[-1])]


def shown(strategy: MarkovianSummary, *said: str) -> str:
    return " | ".join(entry.text for entry in strategy.view(rounds(*said)) if isinstance(entry, Message))


def test_a_workspace_is_the_task_the_report_and_the_last_action_with_its_result() -> None:
    strategy = MarkovianSummary("")
    first = "<think>t1</think><summary>s1</summary><search>a</search>"
    assert shown(strategy, first) == "told 0\n<summary>s1</summary> | <search>a</search> | told 1"
    second = "<think>t2</think><search>b</search>"
    assert shown(strategy, first, second) == "told 0\n<summary>s1</summary> | <search>b</search> | told 2"


@given(st.text(alphabet="ab ", min_size=1, max_size=200), st.integers(1, 50))
def test_what_is_carried_on_is_bounded(text: str, letters: int) -> None:
    strategy = context_strategy(f"summary:{letters}")
    assert isinstance(strategy, MarkovianSummary)
    seen = shown(strategy, f"<summary>{text}</summary>{text}")
    inside = seen.split("<summary>")[-1].split("</summary>")[0]
    assert len(inside) <= letters + 2
    assert len(seen.split(" | ")[1]) <= letters + 2


def test_a_report_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="is too short"):
        context_strategy("summary:0")
