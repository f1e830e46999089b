"""Requests follow the documentation of the APIs, and answers are read strictly."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import turnwise as tw
from turnwise.agents.chat_apis.anthropic_messages import Messages
from turnwise.agents.chat_apis.client import encoded
from turnwise.agents.chat_apis.conversation import NOT_RUN, Exchange, Reply, exchange
from turnwise.agents.chat_apis.dialect import BadAnswerError, Dialect, Request
from turnwise.agents.chat_apis.openai_chat import ChatCompletions
from turnwise.agents.chat_apis.openai_responses import Responses
from turnwise.envs.messages import ImagePart, Message, Observation, TextPart, message
from turnwise.envs.tools import Tool, describe
from turnwise.inference.bounded_json import loads
from turnwise.inference.policy import Finish

from .fake_api import _anthropic, _chat, _responses
from .schemas import check

PNG = ImagePart(b"\x89PNG\r\n")
DIALECTS: dict[str, Dialect] = {
    "chat": ChatCompletions(),
    "openai": ChatCompletions(limit="max_completion_tokens"),
    "responses": Responses(),
    "anthropic": Messages(),
}
every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)


def look(place: str, times: int = 1) -> str:
    """Look at a place.

    Args:
        place: position of the problem.
        times: how often.
    """
    return place * times


def tools() -> list[Tool]:
    return [describe(look, "look"), describe(look, "web.look")]


def answer(dialect: Dialect, said: str, arguments: dict[str, Any] | None = None, source: str | None = None) -> Any:
    """An answer in the dialect's format; ``source`` stands in the place of the arguments' JSON."""
    rng = random.Random(said)
    if isinstance(dialect, Messages):
        return _anthropic(said, arguments, 10, 5, rng)
    text = source if source is not None else None if arguments is None else json.dumps(arguments)
    return (_responses if isinstance(dialect, Responses) else _chat)(said, text, 10, 5, rng)


def conversation(dialect: Dialect) -> list[Exchange]:
    """Everything that may happen: calls, answered or not, images, odd names, nothing at all, half surrogates."""
    opening = Observation(
        (
            message("system", "Play."),
            Message("user", (TextPart("Look \ud800 here:"), PNG)),
            Message("assistant", (), (tw.ToolCall("look", {"place": "a"}),)),
        )
    )
    exchanges = [exchange(None, opening)]
    used: set[str] = set()

    def then(content: Any, *messages: Message) -> Reply:
        reply = dialect.read(content, used)
        used.update(call.id for call in reply.calls)
        results = [m if m.tool_call_id != "?" else _to(m, reply.calls[0].id) for m in messages]
        exchanges.append(exchange(reply, Observation(tuple(results))))
        return reply

    then(answer(dialect, "look", {"place": "x"}), Message("tool", (TextPart("a tree"), PNG), tool_call_id="?"))
    then(answer(dialect, "look", {"place": "x"}))  # the id comes again, and nothing answers it
    then(answer(dialect, "functions.odd name!", {"a": 1}), message("user", "There is no such tool."))
    then(answer(dialect, "web_look", {"place": "y"}, source='{"place": "y"'), message("user", "Not JSON."))
    then(answer(dialect, "I am done."), Message("tool", (TextPart("late"),), name="look", tool_call_id="gone"))
    then(answer(dialect, ""), message("user", ""))
    then(answer(dialect, "left"), message("system", "Hurry."), message("user", "Go on."))
    return exchanges


def _to(answer: Message, id: str) -> Message:
    return Message("tool", answer.parts, name="look", tool_call_id=id)


@every_dialect
def test_requests_are_what_the_api_documents(dialect: Dialect) -> None:
    request = Request("gpt-4o", conversation(dialect), tools(), 100, 0.5)
    body = json.loads(encoded(dialect.body(request)))
    check(dialect.path, body, beyond=frozenset({"reasoning_content"}))
    shown = json.dumps(body)
    assert shown.count("iVBORw0K") == 2, "images are sent, a tool's too"
    assert NOT_RUN in shown, "a call that nothing answered is answered"
    assert "web_look" in shown, "tool names are spelled as every API takes them"
    assert "web.look" not in shown
    assert "late" in shown, "a result without a call is not lost"
    assert request.image_bytes == (2, 16)


@every_dialect
def test_answers_are_read(dialect: Dialect) -> None:
    reply = dialect.read(answer(dialect, "look", {"place": "é"}), ())
    assert [(call.name, json.loads(call.arguments)) for call in reply.calls] == [("look", {"place": "é"})]
    assert (reply.text, reply.finish) == ("", Finish.STOP)
    assert reply.usage is not None
    assert (reply.usage.prompt, reply.usage.completion) == (10, 5)
    spoken = dialect.read(answer(dialect, "left"), ())
    assert (spoken.text, spoken.calls) == ("left", ())
    if not isinstance(dialect, Responses):
        assert spoken.reasoning == "Let me think.", "reasoning is kept apart from what was said"


@every_dialect
def test_ids_are_unique_in_an_episode(dialect: Dialect) -> None:
    first = dialect.read(answer(dialect, "look", {"place": "x"}), ()).calls[0].id
    again = dialect.read(answer(dialect, "look", {"place": "x"}), {first})
    assert again.calls[0].id not in {first, ""}
    assert json.dumps(again.said).count(again.calls[0].id) == 1, "what is sent back carries the new id"


@every_dialect
@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        "text",
        {},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": 3}]},
        {"choices": [{"message": {"content": 3}}]},
        {"choices": [{"message": {"tool_calls": {}}}]},
        {"choices": [{"message": {"tool_calls": [{"function": {"name": 7}}]}}]},
        {"choices": [{"finish_reason": "error", "message": {"content": "x"}}]},
        {"status": "failed", "error": {"message": "x"}},
        {"status": "completed", "output": []},
        {"status": "completed", "output": [3]},
        {"type": "error", "error": {"message": "x"}},
        {"type": "message", "content": "x"},
        {"type": "message", "content": [{"type": "tool_use", "input": []}]},
    ],
    ids=str,
)
def test_what_is_no_answer_is_the_servers_fault(dialect: Dialect, broken: Any) -> None:
    with pytest.raises(BadAnswerError):
        dialect.read(broken, ())


def test_variants_of_chat_completions_are_learned_from_refusals() -> None:
    plain = ChatCompletions()
    newer = plain.adapted("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    assert newer is not None
    assert "max_completion_tokens" in newer.body(Request("m", [exchange(None, Observation((message("user", "x"),)))]))
    older = plain.adapted("reasoning_content is not allowed in messages")
    assert older is not None
    said = conversation(plain)
    assert "Let me think" in str(plain.body(Request("m", said)))
    assert "Let me think" not in str(older.body(Request("m", said)))
    assert newer.adapted("max_completion_tokens is too large") is None, "no variant is tried twice"


def test_other_shapes_that_servers_use() -> None:
    chat = ChatCompletions()
    parts: list[dict[str, Any]] = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "left"}]
    reply = chat.read({"choices": [{"message": {"content": parts}, "finish_reason": "length"}]}, ())
    assert (reply.text, reply.finish, reply.usage) == ("left", Finish.LENGTH, None)
    thought = [{"type": "text", "text": "Left is "}, {"type": "reference", "reference_ids": [1]}]
    parts[0] = {"type": "thinking", "thinking": [*thought, {"type": "text", "text": "open."}], "closed": True}
    reply = chat.read({"choices": [{"message": {"content": parts}}]}, ())
    assert (reply.reasoning, reply.text) == ("Left is open.", "left"), "Mistral's thought is a list of parts"
    call = {"id": "", "function": {"name": "look", "arguments": {"place": "x"}}}
    reply = chat.read({"choices": [{"message": {"tool_calls": [call, call]}}]}, ())
    assert [(c.id, c.arguments) for c in reply.calls] == [("call_1", '{"place": "x"}'), ("call_2", '{"place": "x"}')]
    said = chat.read({"choices": [{"message": {"content": None, "refusal": "I cannot."}}]}, ())
    assert said.text == "I cannot.", "a refusal is what the model said"
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    cut = Messages().read({"type": "message", "content": [thinking], "stop_reason": "max_tokens"}, ())
    assert (cut.text, cut.said, cut.finish) == ("", (), Finish.LENGTH)


@pytest.mark.parametrize("source", ["[" * 5000 + "]" * 5000, "[" * 101 + "]" * 101, '{"a": ' * 400 + "1" + "}" * 400])
def test_deep_json_is_refused_before_it_harms(source: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        loads(source)
    assert loads("[" * 90 + "]" * 90)


def test_reasoning_that_the_server_does_not_keep_is_not_sent_back() -> None:
    rng = random.Random(1)
    lost = Responses().read(_responses("look", "{}", 10, 5, rng, kept=False), ())
    assert [item["type"] for item in lost.said] == ["function_call"], "a bare id would be refused: nothing is stored"
    kept = Responses().read(_responses("look", "{}", 10, 5, rng), ())
    assert [item["type"] for item in kept.said] == ["reasoning", "function_call"]
