"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...envs.messages import ImagePart, Part
from ...inference.policy import Finish
from ..tool_calls import dumped
from .conversation import NOTHING, Call, Exchange, Reply, Usage, api_name
from .dialect import BadAnswerError, Dialect, Request, count, mapping, text, unique_id, without_last

VERSION = "2023-06-01"
ENDS = {"max_tokens": Finish.LENGTH, "model_context_window_exceeded": Finish.LENGTH}


@dataclass(frozen=True, slots=True)
class Messages:
    """The format of ``POST /v1/messages``."""

    path: str = "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers with the key and the version of the API."""
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def body(self, request: Request) -> dict[str, Any]:
        """Return the request as JSON."""
        system = [each.text for each in request.exchanges[0].messages if each.role == "system" and each.text.strip()]
        body: dict[str, Any] = {
            "model": request.model,
            "max_tokens": request.max_tokens,
            "messages": _messages(request.exchanges),
        }
        if system:
            body["system"] = "\n\n".join(system)
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.tools:
            body["tools"] = [
                {"name": api_name(tool.name), "description": tool.description, "input_schema": tool.parameters}
                for tool in request.tools
            ]
        return body | dict(request.extra)

    def read(self, content: Any, used: Collection[str]) -> Reply:
        """Read the content blocks.

        Raises:
            BadAnswerError: they are not blocks.
        """
        answer = mapping(content, "the answer")
        if answer.get("type") != "message" or not isinstance(answer.get("content"), list):
            raise BadAnswerError(f"the answer is not a message: {str(answer.get('error', answer))[:200]}")
        calls: list[Call] = []
        spoken, thought, said = "", "", list[Mapping[str, Any]]()
        for each in answer["content"]:
            block = mapping(each, "a content block")
            if block.get("type") == "text":
                spoken += text(block.get("text"), "a text block")
                if text(block.get("text"), "a text block").strip():  # the API refuses blank text in the next request
                    said.append({"type": "text", "text": block["text"]})
            elif block.get("type") in ("thinking", "redacted_thinking"):
                thought += text(block.get("thinking"), "a thinking block")
                said.append(dict(block))
            elif block.get("type") == "tool_use":
                given = mapping(block.get("input"), "the input of a tool call")
                name = text(block.get("name"), "the name of a tool call")
                calls.append(Call(unique_id(block.get("id"), used, calls), name, dumped(given)))
                said.append({"type": "tool_use", "id": calls[-1].id, "name": api_name(name), "input": given})
        return Reply(
            text=spoken,
            calls=tuple(calls),
            reasoning=thought,
            finish=ENDS.get(str(answer.get("stop_reason")), Finish.STOP),
            usage=_usage(answer.get("usage")),
            model=str(answer.get("model") or ""),
            said=without_last(said, ("thinking", "redacted_thinking")),
        )

    def adapted(self, refusal: str) -> Dialect | None:
        """Return ``None``: this format has no variants."""
        return None


def _messages(exchanges: Sequence[Exchange]) -> list[dict[str, Any]]:
    """Return alternating messages that begin with the user's; empty ones are left out, as the API refuses them."""
    messages: list[dict[str, Any]] = []

    def add(role: str, blocks: Sequence[Mapping[str, Any]]) -> None:
        if not blocks:
            return
        if not messages and role == "assistant":
            add("user", [{"type": "text", "text": NOTHING}])
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": list(blocks)})

    for number, exchange in enumerate(exchanges):
        if exchange.said is not None:
            add("assistant", exchange.said.said)
        add("user", [_result(result.call.id, result.parts) for result in exchange.results])
        for message in exchange.messages:
            if message.role == "system" and number == 0:
                continue
            add("assistant" if message.role == "assistant" else "user", _blocks(message.parts))
        if not messages or messages[-1]["role"] != "user":
            add("user", [{"type": "text", "text": NOTHING}])
    return messages


def _result(id: str, parts: Sequence[Part]) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": _blocks(parts)}


def _blocks(parts: Sequence[Part]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, ImagePart):
            source = {"type": "base64", "media_type": part.mime, "data": part.base64}
            blocks.append({"type": "image", "source": source})
        elif part.text.strip():
            blocks.append({"type": "text", "text": part.text})
    return blocks


def _usage(given: Any) -> Usage | None:
    if not isinstance(given, dict) or "input_tokens" not in given:
        return None
    read, written = count(given.get("cache_read_input_tokens")), count(given.get("cache_creation_input_tokens"))
    return Usage(
        prompt=count(given.get("input_tokens")) + read + written,
        completion=count(given.get("output_tokens")),
        cached=read,
        cache_writes=written,
    )
