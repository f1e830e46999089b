"""OpenAI's Chat Completions, which most other servers support too: OpenRouter, llama.cpp, Ollama, SGLang, vLLM."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...envs.messages import ImagePart, Part
from ...inference.policy import Finish
from ..tool_calls import dumped
from .conversation import Call, Exchange, Reply, Result, Usage, api_name
from .dialect import BadAnswerError, Dialect, Request, count, json_object, mapping, sequence, text, unique_id

ENDS = {"length": Finish.LENGTH, "max_tokens": Finish.LENGTH}
REASONING = ("reasoning_content", "reasoning")
"""Fields that hold the reasoning of a message, by server."""


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """The format of ``POST /chat/completions``.

    Args:
        limit: field that limits an answer: ``max_tokens``, or ``max_completion_tokens`` on OpenAI's own servers.
        returns_reasoning: whether to send the model's earlier reasoning back in the field that it came in. Most
            reasoning models use it between tool calls, some servers require it, and a few refuse it.
    """

    limit: str = "max_tokens"
    returns_reasoning: bool = True
    path: str = "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return a bearer token."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request) -> dict[str, Any]:
        """Return the request as JSON."""
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [each for exchange in request.exchanges for each in self._messages(exchange)],
            self.limit: request.max_tokens,
        }
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.tools:
            body["tools"] = [_tool(tool.to_json()) for tool in request.tools]
        return body | dict(request.extra)

    def read(self, content: Any, used: Collection[str]) -> Reply:
        """Read the first choice.

        Raises:
            BadAnswerError: there is none, or it is not a message.
        """
        answer = mapping(content, "the answer")
        choices = sequence(answer.get("choices"), "choices")
        if not choices:
            raise BadAnswerError("there are no choices in the answer")
        choice = mapping(choices[0], "the choice")
        if choice.get("error") or choice.get("finish_reason") == "error":
            raise BadAnswerError(f"the answer has an error: {choice.get('error')}")
        said = mapping(choice.get("message"), "the message")
        calls = _calls(sequence(said.get("tool_calls"), "tool_calls"), used)
        spoken, thought = _content(said.get("content"))
        field = next((name for name in REASONING if isinstance(said.get(name), str) and said[name]), None)
        spoken = spoken or ("" if calls else text(said.get("refusal"), "refusal"))
        return Reply(
            text=spoken,
            calls=calls,
            reasoning=said[field] if field else thought,
            finish=ENDS.get(str(choice.get("finish_reason")), Finish.STOP),
            usage=_usage(answer.get("usage")),
            model=str(answer.get("model") or ""),
            said=(_said(spoken, calls, said, field),) if spoken or calls else (),
        )

    def adapted(self, refusal: str) -> Dialect | None:
        """Return a variant with the other name of the limit, or without the reasoning, if the server asks for it."""
        if self.limit == "max_tokens" and "max_completion_tokens" in refusal:
            return replace(self, limit="max_completion_tokens")
        if self.returns_reasoning and any(name in refusal for name in (*REASONING, "reasoning_details")):
            return replace(self, returns_reasoning=False)
        return None

    def _messages(self, exchange: Exchange) -> Iterator[dict[str, Any]]:
        if exchange.said is not None:
            for said in exchange.said.said:
                hidden = () if self.returns_reasoning else (*REASONING, "reasoning_details")
                yield {name: value for name, value in said.items() if name not in hidden}
        yield from _results(exchange.results)
        for message in exchange.messages:
            yield {"role": message.role, "content": _written(message.parts)}


def _results(results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """Yield tool messages, which can have text only, and images in a user message after them."""
    for result in results:
        yield {"role": "tool", "tool_call_id": result.call.id, "content": result.text}
    for result in results:
        images = tuple(part for part in result.parts if isinstance(part, ImagePart))
        if images:
            note = {"type": "text", "text": f"Images returned by {result.call.name}:"}
            yield {"role": "user", "content": [note, *map(_part, images)]}


def _written(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    if any(isinstance(part, ImagePart) for part in parts):
        return [_part(part) for part in parts]
    return "".join(part.text for part in parts if not isinstance(part, ImagePart))


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": part.data_url}}
    return {"type": "text", "text": part.text}


def _tool(described: dict[str, Any]) -> dict[str, Any]:
    function = described["function"]
    return {"type": "function", "function": {**function, "name": api_name(function["name"])}}


def _calls(given: Sequence[Any], used: Collection[str]) -> tuple[Call, ...]:
    calls: list[Call] = []
    for each in given:
        call = mapping(each, "a tool call")
        function = mapping(call.get("function"), "the function of a tool call")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers send an object in place of its text
            arguments = dumped(arguments)
        name = text(function.get("name"), "the name of a tool call")
        calls.append(Call(unique_id(call.get("id"), used, calls), name, text(arguments, "the arguments")))
    return tuple(calls)


def _content(content: Any) -> tuple[str, str]:
    """Return text and reasoning of a message's content, a string or a list of parts."""
    if not isinstance(content, list):
        return text(content, "the content"), ""
    parts = [mapping(part, "a part of the content") for part in content]
    said = "".join(text(part.get("text"), "a part's text") for part in parts if part.get("type") == "text")
    # A thought is text or, from Mistral, a list of parts of its own.
    return said, "".join(_content(part.get("thinking"))[0] for part in parts if part.get("type") == "thinking")


def _said(spoken: str, calls: Sequence[Call], message: Mapping[str, Any], field: str | None) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": spoken}
    if calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": api_name(call.name), "arguments": json_object(call.arguments)},
            }
            for call in calls
        ]
    if field is not None:
        said[field] = message[field]
    if isinstance(message.get("reasoning_details"), list):
        said["reasoning_details"] = message["reasoning_details"]
    return said


def _usage(given: Any) -> Usage | None:
    if not isinstance(given, dict) or "prompt_tokens" not in given:
        return None
    read, written = given.get("prompt_tokens_details"), given.get("completion_tokens_details")
    read, written = (part if isinstance(part, dict) else {} for part in (read, written))
    return Usage(
        prompt=count(given.get("prompt_tokens")),
        completion=count(given.get("completion_tokens")),
        cached=count(read.get("cached_tokens")),
        cache_writes=count(read.get("cache_write_tokens")),
        reasoning=count(written.get("reasoning_tokens")),
    )
