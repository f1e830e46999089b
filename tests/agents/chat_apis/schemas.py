"""The request types of the providers: OpenAI's by its own SDK, Anthropic's written down strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, Self

import pydantic
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

ToolName = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
ToolId = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-zA-Z0-9_-]+$")]
Said = Annotated[str, pydantic.StringConstraints(pattern=r"\S")]


class Strict(pydantic.BaseModel):
    """A JSON object with these fields and no others."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class Text(Strict):
    """A text block; blank ones are refused."""

    type: Literal["text"]
    text: Said


class Source(Strict):
    """An image's bytes."""

    type: Literal["base64"]
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: pydantic.Base64Bytes


class Image(Strict):
    """An image block."""

    type: Literal["image"]
    source: Source


class Thinking(Strict):
    """A thinking block, which must come back unchanged."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class Redacted(Strict):
    """A thinking block that only the provider can read."""

    type: Literal["redacted_thinking"]
    data: str


class ToolUse(Strict):
    """A tool call."""

    type: Literal["tool_use"]
    id: ToolId
    name: ToolName
    input: dict[str, Any]


class ToolResult(Strict):
    """The answer to a tool call."""

    type: Literal["tool_result"]
    tool_use_id: ToolId
    content: list[Annotated[Text | Image, pydantic.Field(discriminator="type")]]


class UserMessage(Strict):
    """A message of the user."""

    role: Literal["user"]
    content: Annotated[
        list[Annotated[Text | Image | ToolResult, pydantic.Field(discriminator="type")]], pydantic.Field(min_length=1)
    ]


class AssistantMessage(Strict):
    """A message of the model."""

    role: Literal["assistant"]
    content: Annotated[
        list[Annotated[Text | Thinking | Redacted | ToolUse, pydantic.Field(discriminator="type")]],
        pydantic.Field(min_length=1),
    ]


class Tool(Strict):
    """A tool."""

    name: ToolName
    description: str
    input_schema: dict[str, Any]


class AnthropicRequest(Strict):
    """The body of ``POST /v1/messages``, as far as Turnwise uses it."""

    model: str
    max_tokens: Annotated[int, pydantic.Field(ge=1)]
    messages: Annotated[
        list[Annotated[UserMessage | AssistantMessage, pydantic.Field(discriminator="role")]],
        pydantic.Field(min_length=1),
    ]
    system: Said | None = None
    temperature: Annotated[float, pydantic.Field(ge=0, le=1)] | None = None
    tools: list[Tool] | None = None

    @pydantic.model_validator(mode="after")
    def _in_order(self) -> Self:
        assert [m.role for m in self.messages[::2]] == ["user"] * len(self.messages[::2]), "roles must alternate"
        assert [m.role for m in self.messages[1::2]] == ["assistant"] * len(self.messages[1::2])
        assert self.messages[-1].role == "user", "the user has the last word"
        for said, answer in zip(self.messages[1::2], self.messages[2::2], strict=True):
            called = [block.id for block in said.content if isinstance(block, ToolUse)]
            results = [block.tool_use_id for block in answer.content[: len(called)] if isinstance(block, ToolResult)]
            assert called == results, "each tool call is answered at once, before anything else is said"
            assert not isinstance(said.content[-1], Thinking | Redacted), "thinking cannot be the end of a message"
        return self


@cache
def _adapter(path: str) -> pydantic.TypeAdapter[Any]:
    if path.endswith("/messages"):
        return pydantic.TypeAdapter(AnthropicRequest)
    chat = path.endswith("/chat/completions")
    return pydantic.TypeAdapter(CompletionCreateParamsNonStreaming if chat else ResponseCreateParamsNonStreaming)


def check(path: str, body: dict[str, Any], *, beyond: frozenset[str] = frozenset()) -> None:
    """Raise what a strict server would refuse, unknown fields included.

    Args:
        path: path of the request.
        body: body of the request.
        beyond: fields of messages that are not OpenAI's own.
    """
    if path.endswith("/messages"):
        _adapter(path).validate_json(json.dumps(body))
        return
    checked = _adapter(path).validate_python(body)
    assert _whole(checked) == _without(body, beyond), "a field is not one of the API's"
    if path.endswith("/chat/completions"):
        _answered(body["messages"])


def _whole(value: Any) -> Any:
    """A validated value; what is validated lazily is read."""
    if isinstance(value, dict):
        return {name: _whole(inner) for name, inner in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    return [_whole(inner) for inner in value]


def _without(value: Any, fields: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(inner, fields) for name, inner in value.items() if name not in fields}
    return [_without(inner, fields) for inner in value] if isinstance(value, list) else value


def _answered(messages: list[dict[str, Any]]) -> None:
    """Each tool call has its answer directly behind it, and no answer stands alone."""
    rest: Iterator[dict[str, Any]] = iter(messages)
    for message in rest:
        assert message["role"] != "tool", "a tool message answers no call"
        for call in message.get("tool_calls", ()):
            answer = next(rest)
            assert (answer["role"], answer.get("tool_call_id")) == ("tool", call["id"])
