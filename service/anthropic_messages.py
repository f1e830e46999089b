"""Anthropic's Messages API: blocks in, blocks and events out, with the same recorder as the chat API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..envs.messages import Message, ToolCall
from ..errors import RequestError
from .chat import arguments, event, parts
from .recorder import Answer
from .requests import (
    ChatRequest,
    called,
    flag,
    options,
    read_number,
    refuse_format,
    said,
    stop_texts,
    unsupported,
    wanted_tools,
    whole_number,
)

KNOWN = frozenset(
    {
        "context_management",
        "max_tokens",
        "messages",
        "model",
        "output_config",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
    }
)
"""Parameters that are read. ``thinking`` and ``context_management`` have no effect: a policy thinks as it was trained
to, and a prompt that is too long is refused, never cut."""
BILLING = re.compile(r"^\s*x-anthropic-billing-header:[^\n]*\n?")
"""First line of Claude Code's system prompt. It holds a hash that differs in each request, so each prompt would begin a
row of its own."""
THOUGHTS = ("thinking", "redacted_thinking")
"""Blocks that clients send back. An answer of the policy stands for its sampled ids, which contain its thoughts."""
STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
}
"""Types of errors by HTTP status; others are ``api_error``, or ``invalid_request_error`` below 500."""


def read_messages(body: Any) -> ChatRequest:
    """Parse the JSON body of ``/v1/messages`` or ``/v1/messages/count_tokens``.

    Raises:
        RequestError: something in it is wrong or unsupported.
    """
    given = options(body, KNOWN)
    config = given.get("output_config")
    refuse_format(config.get("format") if isinstance(config, dict) else config, "output_config.format")
    entries = given.get("messages")
    if not isinstance(entries, list) or not entries:
        raise RequestError("messages must be a list of at least one message", param="messages")
    messages = [each for place, entry in enumerate(entries) for each in _messages(entry, f"messages[{place}]")]
    if messages[-1].role == "assistant":
        raise RequestError(
            "the last message is the assistant's, but the policy cannot continue a text that it did not write; end "
            "with a user's message",
            param="messages",
        )
    limit = given.get("max_tokens")
    return ChatRequest(
        (*_system(given.get("system")), *messages),
        tools=wanted_tools({**given, "tool_choice": _choice(given.get("tool_choice"))}, _described),
        temperature=read_number(given, "temperature"),
        max_tokens=None if limit is None else whole_number(limit, "max_tokens"),
        stop=stop_texts(given.get("stop_sequences"), "stop_sequences"),
        stream=flag(given, "stream"),
    )


def message(answer: Answer, *, model: str) -> dict[str, Any]:
    """Return the body of an answer."""
    return {
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(_blocks(answer)),
        "stop_reason": STOPS[answer.finish] if answer.stopped_by is None else "stop_sequence",
        "stop_sequence": answer.stopped_by,
        "usage": _usage(answer.read, answer.sampled),
    }


def events(made: Mapping[str, Any]) -> Iterator[str]:
    """Yield the server-sent events of a streamed answer."""

    def named(kind: str, **data: Any) -> str:
        return event({"type": kind, **data}, kind)

    usage = made["usage"]
    unfinished = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage | {"output_tokens": 0}}
    yield named("message_start", message={**made, **unfinished})
    for place, block in enumerate(made["content"]):
        empty, deltas = _streamed(block)
        yield named("content_block_start", index=place, content_block=empty)
        for delta in deltas:
            yield named("content_block_delta", index=place, delta=delta)
        yield named("content_block_stop", index=place)
    ended = {"stop_reason": made["stop_reason"], "stop_sequence": made["stop_sequence"]}
    yield named("message_delta", delta=ended, usage=usage)
    yield named("message_stop")


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the format of Anthropic's clients.

    Args:
        status: HTTP status.
        message: English text for the client.
        code: our own code; clients know by the words when to shorten a conversation.
    """
    if code == "context_length_exceeded":
        message = f"prompt is too long: {message}"
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _blocks(answer: Answer) -> Iterator[dict[str, Any]]:
    reply = answer.reply
    if answer.thoughts:
        yield {"type": "thinking", "thinking": answer.thoughts, "signature": ""}
    if reply.text or not reply.tool_calls:
        yield {"type": "text", "text": reply.text}
    for call in reply.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}


def _streamed(block: Mapping[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return a block as it is opened, and the deltas that fill it."""
    if block["type"] == "tool_use":
        text = arguments(ToolCall(block["name"], block["input"]))
        return {**block, "input": {}}, ({"type": "input_json_delta", "partial_json": part} for part in parts(text))
    name = "thinking" if block["type"] == "thinking" else "text"
    return {**block, name: ""}, ({"type": f"{name}_delta", name: part} for part in parts(block[name]))


def _usage(read: int, sampled: int) -> dict[str, int]:
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": read, "output_tokens": sampled, **cached}


def _system(given: Any) -> list[Message]:
    texts = [text for text in (BILLING.sub("", text) for text in _texts(given, "system")) if text]
    return [said("system", "\n".join(texts))] if texts else []


def _messages(entry: Any, where: str) -> list[Message]:
    """Convert one message; several results of tools in it become messages of their own."""
    role = entry.get("role") if isinstance(entry, dict) else entry
    if role not in ("user", "assistant"):
        raise RequestError(f"{where} has role {role!r}; roles are user and assistant", param=where)
    content = entry.get("content")
    if role == "assistant":
        return [_assistant(content, where)]
    made: list[Message] = []
    texts: list[str] = []
    for block in _listed(content, where):
        if block.get("type") == "tool_result":
            if texts:
                made.append(said("user", "\n".join(texts)))
                texts = []
            results = _texts(block.get("content"), f"{where}.content")
            made.append(said("tool", "\n".join(results), answers=block.get("tool_use_id")))
        else:
            texts.append(_text(block, where))
    return [*made, said("user", "\n".join(texts))] if texts or not made else made


def _assistant(content: Any, where: str) -> Message:
    texts, calls = [], list[ToolCall]()
    for block in _listed(content, where):
        if block.get("type") == "tool_use":
            calls.append(called(block.get("name"), block.get("input"), block.get("id"), where))
        elif block.get("type") not in THOUGHTS:
            texts.append(_text(block, where))
    return said("assistant", "".join(texts), calls)


def _listed(content: Any, where: str) -> Sequence[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise RequestError(f"{where}.content must be text or a list of blocks", param=where)
    return content


def _texts(content: Any, where: str) -> list[str]:
    return [] if content is None else [_text(block, where) for block in _listed(content, where)]


def _text(block: Mapping[str, Any], where: str) -> str:
    if block.get("type") != "text" or not isinstance(block.get("text"), str):
        kind = block.get("type")
        raise RequestError(f"{where} has a block of type {kind!r}, but this policy reads only text", param=where)
    return str(block["text"])


def _choice(given: Any) -> Any:
    if given is None:
        return "auto"
    if not isinstance(given, dict):
        raise RequestError("tool_choice must be an object with a type", param="tool_choice")
    if given.get("disable_parallel_tool_use"):
        raise unsupported(
            "tool_choice.disable_parallel_tool_use", True, "the policy may always call several tools at once"
        )
    return given.get("type")


def _described(entry: Any, where: str) -> Mapping[str, Any]:
    kind = entry.get("type") or "custom" if isinstance(entry, dict) else entry
    if kind != "custom" or not isinstance(entry.get("name"), str):
        raise RequestError(
            f"{where} is of type {kind!r}; only tools of the client, with a name, are supported", param=where
        )
    function = {"name": entry["name"]}
    function |= {"description": entry["description"]} if entry.get("description") is not None else {}
    function |= {"parameters": entry["input_schema"]} if entry.get("input_schema") is not None else {}
    return {"type": "function", "function": function}
