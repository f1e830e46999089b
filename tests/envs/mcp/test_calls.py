"""Calls of servers' tools: checked before they are sent, answered with an observation, whatever is sent or returned."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnwise as tw
from turnwise.envs.mcp.listing import checker
from turnwise.envs.mcp.spec import ServerSpec
from turnwise.envs.messages import ImagePart, TextPart
from turnwise.errors import ToolError

from .around import HERE, Around, raw, said

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mcp") is None, reason="NOT TESTED: pip install 'turnwise[mcp]'"
)


@pytest.fixture(scope="module")
def odd() -> Iterator[Around]:
    """An episode with the SDK's own server."""
    inherit = [name for name in ("PYTHONPATH",) if name in os.environ]
    spec = ServerSpec("odd", (sys.executable, str(HERE / "odd_server.py")), inherit=inherit, env={"GIVEN": "x"})
    made = Around(servers=[spec])
    made.reset(seed=0)
    yield made
    made.close()


@pytest.mark.slow
def test_arguments_that_do_not_fit_are_refused_before_they_are_sent(odd: Around) -> None:
    assert said(odd, "echo", text="hello") == "hello"
    assert said(odd, "echo") == "Error: echo: argument 'text' is missing."
    assert said(odd, "echo", text=3).startswith("Error: echo: argument 'text': it must be of type string; got 3")
    assert "'more' was unexpected" in said(odd, "echo", text="a", more=1)
    assert "too long" in said(odd, "echo", text="a" * 41)
    assert said(odd, "nested", points=[{"x": None}, {"x": "a"}, {}]) == (
        "Error: nested: argument 'points.1.x': it must be of type integer or null; got 'a'; "
        "argument 'points.2.x' is missing."
    )
    assert said(odd, "nested", points=[{"x": 1}], any={"thing": [1]}) == "{'points': [{'x': 1}], 'any': {'thing': [1]}}"
    info = odd.step(tw.ToolCall("echo"))[4]
    assert info["tool_errors"] == ["echo"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"text": "\ud83d"}, "half a surrogate pair"),
        ({"text": float("nan")}, "not valid JSON"),
        ({"text": b"bytes"}, "not valid JSON"),
        ({"text": object}, "not valid JSON"),
        ({"text": "x" * 2_000_000}, "at most 1000000"),
        ("text", "must be an object"),
        (None, "must be an object"),
    ],
    ids=["surrogate", "nan", "bytes", "object", "long", "text", "none"],
)
def test_arguments_that_cannot_be_sent_are_refused(odd: Around, arguments: Any, words: str) -> None:
    assert words in odd.step(tw.ToolCall("echo", arguments))[0].text


def test_arguments_nested_without_end_are_refused(odd: Around) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert said(odd, "self", env=deep).startswith("Your action is nested too deeply")
    assert "arguments must be an object" in odd.step(tw.ToolCall("self", cast("Any", [[]])))[0].text


@pytest.mark.slow
@settings(max_examples=40)
@given(st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.floats() | st.text(), st.lists, max_leaves=5)))
def test_no_arguments_raise(odd: Around, arguments: dict[str, Any]) -> None:
    vars(odd)["_turn"] = 0
    odd.step(tw.ToolCall("nested", arguments))
    odd.step(tw.ToolCall("self", arguments))


def test_what_a_server_refuses_is_an_observation(odd: Around) -> None:
    assert said(odd, "fail") == "Error: it did not work"
    assert said(odd, "refuse") == "Error: refuse: refused by the server"
    assert said(odd, "crash") == "Error: crash: Internal server error"
    assert said(odd, "no_such_tool").startswith("Error: there is no tool 'no_such_tool'. You have: stop, echo")


def test_answers_become_texts_and_pictures(odd: Around) -> None:
    [answer] = odd.step(tw.ToolCall("picture", {}, "call-1"))[0].messages
    assert answer.parts == (
        TextPart("look\n[a picture that cannot be read, image/gif]\n[audio, audio/wav]"),
        ImagePart(b"\x89PNG not really"),
    )
    assert answer.tool_call_id == "call-1"
    assert said(odd, "nothing") == "done"
    assert said(odd, "structured") == '{"answer": 42}'
    huge = said(odd, "huge")
    assert len(huge) < 17_000
    assert huge.endswith("… and 2984000 more characters")


def test_schemas_that_are_none_leave_the_check_to_the_server(odd: Around) -> None:
    assert said(odd, "broken_schema", a=2) == "{'a': 2}"
    assert said(odd, "far_reference", a=2) == "{'a': 2}", "and nothing was looked up on the network"
    assert said(odd, "self", self=1, env=None) == "{'self': 1, 'env': None}"
    for seed in range(60):
        assert isinstance(odd.random_action(tw.Rng("random", seed)), tw.ToolCall)


def test_a_server_gets_no_variable_that_is_not_named(odd: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set(said(odd, "environment").split()) - {"LC_CTYPE"}  # which Python sets for itself
    assert seen - {"PYTHONPATH"} == {"PATH", "GIVEN"}
    assert said(odd, "where") == "/episode"


def test_all_pages_of_a_list_are_read(odd: Around) -> None:
    assert [tool.name for tool in odd.tools][-1] == "nested"


def test_answers_that_are_no_text_are_observations_and_cost_no_time() -> None:
    env = Around(servers=[raw(timeout=100.0)])
    env.reset(seed=0)
    assert said(env, "half") == "Error: half: the server's answer is not readable text"
    assert said(env, "nonsense").startswith("Error: nonsense: ")
    assert said(env, "junk", n=1) == '{"n": 1}', "lines that are no answer are passed over"
    assert said(env, "count") == "1"
    env.close()


def test_calls_beside_the_environments_own_in_one_message() -> None:
    env = Around(servers=[raw()])
    env.reset(seed=0)
    calls = (tw.ToolCall("count"), tw.ToolCall("count"), tw.ToolCall("stop"), tw.ToolCall("count"))
    observation, reward, terminated, _, info = env.step(tw.Action(tool_calls=calls))
    assert [each.text for each in observation.messages] == ["1", "2", "Stopped."]
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    env.close()


async def test_an_author_may_call_too() -> None:
    env = Around(servers=[raw(prefix="raw_")])
    await env.areset(seed=0)
    assert await env.use("raw_echo", {"n": 2}) == '{"n": 2}'
    with pytest.raises(ToolError, match="type integer"):
        await env.use("raw_echo", {"n": "two"})
    with pytest.raises(ToolError, match="no server offers 'stop'"):
        await env.use("stop")
    env.close()


def test_a_tool_of_ones_own_may_answer_with_a_picture() -> None:
    class Draws(tw.ToolEnv):
        def start(self, task: tw.TaskSpec, rng: tw.Rng) -> str:
            return "Go."

        @tw.tool
        def draw(self) -> tuple[TextPart, ImagePart]:
            """Draw."""
            return TextPart("a dot"), ImagePart(b".")

    env = Draws()
    env.reset(seed=0)
    assert env.step(tw.ToolCall("draw"))[0].messages[0].parts == (TextPart("a dot"), ImagePart(b"."))


def test_the_check_names_at_most_a_few_things() -> None:
    problems = checker({"type": "object", "required": ["a", "b"]})
    assert list(problems({})) == ["argument 'a' is missing", "argument 'b' is missing"]
    assert list(problems([])) == ["it must be of type object; got []"]
