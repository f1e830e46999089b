"""OpenAI's Responses API, in which newer models reason and call tools. The server keeps nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...envs.messages import ImagePart, Part
from ...inference.policy import Finish
from .conversation import Call, Exchange, Reply, Usage, api_name
from .dialect import (
    BadAnswerError,
    Dialect,
    Request,
    count,
    json_object,
    mapping,
    sequence,
    text,
    unique_id,
    without_last,
)


@dataclass(frozen=True, slots=True)
class Responses:
    """The format of ``POST /responses``."""

    path: str = "/responses"

    def headers(self, key: str | None) -> dict[str, str]:
        """A bearer token."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: Request) -> dict[str, Any]:
        """The request as JSON."""
        body: dict[str, Any] = {
            "model": request.model,
            "input": [each for exchange in request.exchanges for each in _items(exchange)],
            "max_output_tokens": request.max_tokens,
            "store": False,
            "include": ["reasoning.encrypted_content"],  # the only form of reasoning that can be sent back unstored
        }
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": api_name(tool.name),
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in request.tools
            ]
        return body | dict(request.extra)

    def read(self, content: Any, used: Collection[str]) -> Reply:
        """The output items.

        Raises:
            BadAnswerError: there are none, or the response failed.
        """
        answer = mapping(content, "the answer")
        if answer.get("status") not in ("completed", "incomplete"):
            raise BadAnswerError(f"the response is {answer.get('status')}: {answer.get('error')}")
        items = [mapping(item, "an output item") for item in sequence(answer.get("output"), "output")]
        reason = mapping(answer.get("incomplete_details") or {}, "incomplete_details").get("reason")
        if not items and reason is None:
            raise BadAnswerError("there is no output in the answer")
        calls: list[Call] = []
        spoken, thought, said = "", "", list[Mapping[str, Any]]()
        for item in items:
            if item.get("type") == "message":
                spoken += _texts(item.get("content"), ("output_text", "refusal"))
                said.append(dict(item))
            elif item.get("type") == "reasoning":
                thought += _texts(item.get("summary"), ("summary_text",))
                thought += _texts(item.get("content"), ("reasoning_text",))
                if item.get("encrypted_content"):
                    said.append({name: value for name, value in item.items() if name != "status"})
            elif item.get("type") == "function_call":
                call = _call(item, used, calls)
                calls.append(call)
                said.append(_said(item, call))
        return Reply(
            text=spoken,
            calls=tuple(calls),
            reasoning=thought,
            finish=Finish.LENGTH if reason == "max_output_tokens" else Finish.STOP,
            usage=_usage(answer.get("usage")),
            model=str(answer.get("model") or ""),
            said=without_last(said, ("reasoning",)),
        )

    def adapted(self, refusal: str) -> Dialect | None:
        """This format has no variants."""
        return None


def _items(exchange: Exchange) -> Iterator[Mapping[str, Any]]:
    if exchange.said is not None:
        yield from exchange.said.said
    for result in exchange.results:
        images = any(isinstance(part, ImagePart) for part in result.parts)
        output = [_part(part) for part in result.parts] if images else result.text
        yield {"type": "function_call_output", "call_id": result.call.id, "output": output}
    for message in exchange.messages:
        if any(isinstance(part, ImagePart) for part in message.parts):
            yield {"role": message.role, "content": [_part(part) for part in message.parts]}
        else:
            yield {"role": message.role, "content": message.text}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": part.data_url, "detail": "auto"}
    return {"type": "input_text", "text": part.text}


def _texts(parts: Any, kinds: Sequence[str]) -> str:
    found = [mapping(part, "a part") for part in sequence(parts, "the parts of an item")]
    fields = (
        text(part.get("text", part.get("refusal")), "a part's text") for part in found if part.get("type") in kinds
    )
    return "".join(fields)


def _call(item: Mapping[str, Any], used: Collection[str], calls: Sequence[Call]) -> Call:
    name = text(item.get("name"), "the name of a function call")
    return Call(unique_id(item.get("call_id"), used, calls), name, text(item.get("arguments"), "the arguments"))


def _said(item: Mapping[str, Any], call: Call) -> dict[str, Any]:
    changes = {"call_id": call.id, "name": api_name(call.name), "arguments": json_object(call.arguments)}
    return {**item, **changes}


def _usage(given: Any) -> Usage | None:
    if not isinstance(given, dict) or "input_tokens" not in given:
        return None
    read, written = given.get("input_tokens_details"), given.get("output_tokens_details")
    read, written = (part if isinstance(part, dict) else {} for part in (read, written))
    return Usage(
        prompt=count(given.get("input_tokens")),
        completion=count(given.get("output_tokens")),
        cached=count(read.get("cached_tokens")),
        cache_writes=count(read.get("cache_write_tokens")),
        reasoning=count(written.get("reasoning_tokens")),
    )
