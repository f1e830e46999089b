"""The responses API: items in, items out, with the same recorder as the chat API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..envs.messages import Message, ToolCall
from ..errors import RequestError
from .chat import arguments, event, parts
from .recorder import Answer, Recorder
from .requests import (
    ROLES,
    ChatRequest,
    called,
    flag,
    options,
    read_number,
    refuse_format,
    said,
    text_of,
    unsupported,
    wanted_tools,
    whole_number,
)

KNOWN = frozenset(
    {
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "model",
        "previous_response_id",
        "reasoning",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "truncation",
    }
)
INCLUDED = frozenset({"reasoning.encrypted_content"})
"""Values of ``include`` that are accepted although nothing is ever included."""


@dataclass(frozen=True, slots=True)
class Turned:
    """A request of the responses API, converted to a request for a completion.

    Args:
        asked: request for a completion.
        body: original body, parts of which the answer repeats.
        conversation: messages that a later request may refer to, without instructions.
    """

    asked: ChatRequest
    body: Mapping[str, Any]
    conversation: tuple[Message, ...]


class Responses:
    """The responses API of one episode, which remembers conversations by the ids of its answers.

    Args:
        recorder: recorder that answers.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._before: dict[str, tuple[Message, ...]] = {}

    def read(self, body: Any) -> Turned:
        """Parse a JSON body.

        Raises:
            RequestError: something in it is wrong or unsupported.
        """
        # Codex has sent parallel_tool_calls = false for models that it does not know, and runs several calls in turn.
        codex = isinstance(body, dict) and body.get("client_metadata") is not None
        given = options(body, KNOWN, many_calls=codex)
        previous = given.get("previous_response_id")
        if previous is not None and previous not in self._before:
            raise RequestError(
                f"previous response {previous!r} does not belong to this episode",
                param="previous_response_id",
                status=404,
            )
        if given.get("truncation", "disabled") != "disabled":
            raise unsupported("truncation", given["truncation"], "a prompt that is too long is refused, never cut")
        thinking = given.get("reasoning", {})
        if not isinstance(thinking, dict) or any(thinking[name] is not None for name in set(thinking) - {"summary"}):
            raise unsupported("reasoning", thinking, "thoughts are sampled as the policy has them, and not summarized")
        others = set(given.get("include") or ()) - INCLUDED
        if others:
            raise unsupported("include", sorted(others), "these are not available")
        form = given.get("text")
        refuse_format(form.get("format") if isinstance(form, dict) else form, "text.format")
        conversation = (*self._before.get(previous or "", ()), *_messages(given.get("input")))
        opening = (said("system", given["instructions"]),) if given.get("instructions") else ()
        limit = given.get("max_output_tokens")
        asked = ChatRequest(
            (*opening, *conversation),
            tools=wanted_tools(given, _described),
            temperature=read_number(given, "temperature"),
            max_tokens=None if limit is None else whole_number(limit, "max_output_tokens"),
            stream=flag(given, "stream"),
        )
        return Turned(asked, given, conversation)

    async def answer(self, turned: Turned, *, model: str) -> dict[str, Any]:
        """Return the response's JSON.

        Raises:
            RequestError: the request is invalid; see ``Recorder.answer``.
            InfrastructureError: the policy's server is unavailable.
        """
        answer = await self._recorder.answer(turned.asked)
        made = _response(answer, turned.body, model)
        self._before[made["id"]] = (*turned.conversation, answer.reply)
        return made


def events(response: dict[str, Any]) -> Iterator[str]:
    """Yield the server-sent events of a streamed response."""
    number = -1

    def numbered(kind: str, **data: Any) -> str:
        nonlocal number
        number += 1
        return event({"type": kind, "sequence_number": number, **data}, kind)

    started = response | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield numbered("response.created", response=started)
    yield numbered("response.in_progress", response=started)
    for place, item in enumerate(response["output"]):
        at = {"output_index": place, "item_id": item["id"]}
        if item["type"] == "message":
            opened = item | {"status": "in_progress", "content": []}
            (part,) = item["content"]
            yield numbered("response.output_item.added", output_index=place, item=opened)
            yield numbered("response.content_part.added", **at, content_index=0, part=part | {"text": ""})
            for delta in parts(part["text"]):
                yield numbered("response.output_text.delta", **at, content_index=0, delta=delta, logprobs=[])
            yield numbered("response.output_text.done", **at, content_index=0, text=part["text"], logprobs=[])
            yield numbered("response.content_part.done", **at, content_index=0, part=part)
        elif item["type"] == "function_call":
            opened = item | {"status": "in_progress", "arguments": ""}
            yield numbered("response.output_item.added", output_index=place, item=opened)
            for delta in parts(item["arguments"]):
                yield numbered("response.function_call_arguments.delta", **at, delta=delta)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield numbered("response.function_call_arguments.done", **at, **done)
        else:
            yield numbered("response.output_item.added", output_index=place, item=item)
        yield numbered("response.output_item.done", output_index=place, item=item)
    yield numbered(f"response.{response['status']}", response=response)


def _response(answer: Answer, body: Mapping[str, Any], model: str) -> dict[str, Any]:
    cut = answer.finish == "length"
    sampled = answer.sampled
    return {
        "id": f"resp_{answer.number}",
        "object": "response",
        "created_at": answer.created,
        "completed_at": int(time.time()),
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": model,
        "output": list(_items(answer)),
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "temperature": body.get("temperature"),
        "text": {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": answer.read,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": sampled,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.read + sampled,
        },
    }


def _items(answer: Answer) -> Iterator[dict[str, Any]]:
    number = answer.number
    if answer.thoughts:
        content = [{"type": "reasoning_text", "text": answer.thoughts}]
        yield {"id": f"rs_{number}", "type": "reasoning", "summary": [], "content": content}
    if answer.reply.text or not answer.reply.tool_calls:
        part = {"type": "output_text", "text": answer.reply.text, "annotations": [], "logprobs": []}
        status = "incomplete" if answer.finish == "length" else "completed"
        yield {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": status, "content": [part]}
    for place, call in enumerate(answer.reply.tool_calls):
        fields = {"call_id": call.id, "name": call.name, "arguments": arguments(call), "status": "completed"}
        yield {"id": f"fc_{number}_{place}", "type": "function_call", **fields}


def _messages(given: Any) -> list[Message]:
    """Convert input items to messages; the assistant's consecutive text and calls become one message."""
    if isinstance(given, str):
        return [said("user", given)]
    if not isinstance(given, list) or not given:
        raise RequestError("input must be text, or a list of at least one item", param="input")
    made: list[Message] = []
    open_ = False  # whether the last message is the assistant's, and calls may still join it
    for place, item in enumerate(given):
        where = f"input[{place}]"
        kind = item.get("type", "message") if isinstance(item, dict) else type(item).__name__
        if kind == "reasoning":
            continue
        if kind == "function_call":
            call: ToolCall = called(item.get("name"), item.get("arguments"), item.get("call_id"), where)
            if open_:
                made[-1] = said("assistant", made[-1].text, (*made[-1].tool_calls, call))
            else:
                made.append(said("assistant", "", (call,)))
            open_ = True
        elif kind == "function_call_output":
            text = text_of(item.get("output"), f"{where}.output")
            made.append(said("tool", text, answers=item.get("call_id")))
            open_ = False
        elif kind == "message" and item.get("role") in ROLES:
            made.append(said(ROLES[item["role"]], text_of(item.get("content"), f"{where}.content")))
            open_ = made[-1].role == "assistant"
        else:
            raise RequestError(f"{where} has an unsupported role or type {kind!r}", param=where)
    return made


def _described(entry: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(entry, dict) or entry.get("type") != "function" or not isinstance(entry.get("name"), str):
        kind = entry.get("type") if isinstance(entry, dict) else entry
        raise RequestError(
            f"{where} is of type {kind!r}; only functions with a name are supported as tools", param=where
        )
    fields = {name: entry[name] for name in ("name", "description", "parameters") if entry.get(name) is not None}
    return {"type": "function", "function": fields}
