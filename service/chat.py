"""Responses of the chat API: one JSON object, or a stream of chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..envs.messages import ToolCall
from .recorder import Answer, Token

DONE = "data: [DONE]\n\n"


def completion(answer: Answer, *, model: str, logprobs: bool) -> dict[str, Any]:
    """Return the body of a response."""
    reply: dict[str, Any] = {"role": "assistant", "content": answer.reply.text or None, "refusal": None}
    reply |= {"reasoning_content": answer.thoughts} if answer.thoughts else {}
    reply |= {"tool_calls": [_call(call) for call in answer.reply.tool_calls]} if answer.reply.tool_calls else {}
    if not answer.reply.tool_calls:
        reply["content"] = answer.reply.text
    choice = {
        "index": 0,
        "message": reply,
        "finish_reason": answer.finish,
        "logprobs": _logprobs(answer.tokens) if logprobs else None,
    }
    return _head(answer, model, "chat.completion") | {"choices": [choice], "usage": usage(answer)}


def pieces(answer: Answer, *, model: str, logprobs: bool, with_usage: bool) -> Iterator[str]:
    """Yield the lines of a stream of server-sent events for a response."""
    head = _head(answer, model, "chat.completion.chunk")

    def piece(delta: dict[str, Any], finish: str | None = None, tokens: tuple[Token, ...] = ()) -> str:
        values = _logprobs(tokens) if logprobs and tokens else None
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": values}
        return event(head | {"choices": [choice]} | ({"usage": None} if with_usage else {}))

    yield piece({"role": "assistant", "content": ""})
    if answer.thoughts:
        yield piece({"reasoning_content": answer.thoughts})
    text, calls = answer.reply.text, answer.reply.tool_calls
    if text:
        for part in parts(text):
            yield piece({"content": part})
    for place, call in enumerate(calls):
        whole = _call(call)
        opened = {"name": call.name, "arguments": ""}
        yield piece({"tool_calls": [{"index": place, "id": call.id, "type": "function", "function": opened}]})
        for part in parts(whole["function"]["arguments"]):
            yield piece({"tool_calls": [{"index": place, "function": {"arguments": part}}]})
    yield piece({}, answer.finish, answer.tokens)
    if with_usage:
        yield event(head | {"choices": [], "usage": usage(answer)})
    yield DONE


def event(data: dict[str, Any], name: str | None = None) -> str:
    """Format one server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


def parts(text: str, size: int = 16) -> Iterator[str]:
    """Split a text into chunks, as a client that streams expects it."""
    return (text[start : start + size] for start in range(0, len(text), size))


def usage(answer: Answer) -> dict[str, Any]:
    """Return the numbers of tokens read and sampled."""
    sampled = answer.sampled
    return {"prompt_tokens": answer.read, "completion_tokens": sampled, "total_tokens": answer.read + sampled}


def arguments(call: ToolCall) -> str:
    """Return a call's arguments as JSON text for clients."""
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def _head(answer: Answer, model: str, kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{answer.number}"
    return {"id": name, "object": kind, "created": answer.created, "model": model, "system_fingerprint": None}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call)}}


def _logprobs(tokens: tuple[Token, ...]) -> dict[str, Any]:
    content = [
        {"token": t.text, "logprob": t.logprob, "bytes": list(t.text.encode(errors="replace")), "top_logprobs": []}
        for t in tokens
    ]
    return {"content": content, "refusal": None}
