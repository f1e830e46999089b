"""Conversations in the form of chat APIs: replies of the model, with a result for each tool call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...envs.messages import ImagePart, Message, Observation, Part, TextPart, call_text, message
from ...envs.tools import Tool
from ...inference.policy import Finish

NOT_RUN = "This call was not run."
"""The result of a tool call that the environment left unanswered; APIs require one for each call."""
NOTHING = "(no message)"
"""Replaces an observation without text, which APIs refuse."""
TOOL_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as the model wrote it.

    Args:
        id: id that pairs it with its result.
        name: name of the tool.
        arguments: JSON text, or whatever the model wrote instead.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, as the server counted them.

    Args:
        prompt: tokens read, including the cached ones.
        completion: tokens written, including the reasoning.
        cached: prompt tokens that the provider's prompt cache served.
        cache_writes: prompt tokens written to that cache at a price of their own.
        reasoning: completion tokens of reasoning.
    """

    prompt: int
    completion: int
    cached: int = 0
    cache_writes: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the model.

    Args:
        text: text of the answer, without its reasoning.
        calls: tool calls of the answer.
        reasoning: the model's reasoning, as far as the provider shows it.
        finish: why it ended.
        usage: token counts; ``None`` if the server did not count.
        model: the model's name from the server, often with a version.
        said: the same answer in the provider's format, to send back with the next request.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: Finish = Finish.STOP
    usage: Usage | None = None
    model: str = ""
    said: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one tool call."""

    call: Call
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A reply of the model and the observation that followed.

    Args:
        said: the model's reply; ``None`` at the opening.
        results: one per tool call of the reply, in its order.
        messages: all other messages of the environment.
    """

    said: Reply | None
    results: tuple[Result, ...]
    messages: tuple[Message, ...]

    @property
    def images(self) -> list[ImagePart]:
        """All images of the exchange."""
        parts = [each.parts for each in self.results] + [each.parts for each in self.messages]
        return [part for some in parts for part in some if isinstance(part, ImagePart)]


def exchange(said: Reply | None, observation: Observation) -> Exchange:
    """Pair an observation with the reply that it answers.

    Each tool call gets its result, or ``NOT_RUN``. A tool message that answers no call becomes a user message, and
    calls in an assistant message of the environment become text, since APIs refuse them otherwise.
    """
    left = list(observation.messages)
    results = []
    for call in said.calls if said is not None else ():
        answer = next((each for each in left if each.role == "tool" and each.tool_call_id == call.id), None)
        if answer is not None:
            left.remove(answer)
        results.append(Result(call, answer.parts if answer is not None else (TextPart(NOT_RUN),)))
    others = tuple(map(_plain, left))
    if not results and not any(each.role != "system" for each in others):
        others = (*others, message("user", NOTHING))
    return Exchange(said, tuple(results), others)


def _plain(each: Message) -> Message:
    """Return a message without tool calls or results."""
    if each.role == "tool":
        name = f"Result of {each.name}: " if each.name else ""
        return Message("user", (TextPart(name), *each.parts) if name else each.parts)
    if each.tool_calls:
        text = "\n".join(filter(None, (each.text, *map(call_text, each.tool_calls))))
        return Message(each.role, each.with_text(text).parts)
    return each


def tools_in_text(tools: Sequence[Tool]) -> str:
    """Return instructions for a model that calls tools by writing text."""
    described = "\n".join(json.dumps(tool.to_json()["function"], ensure_ascii=False) for tool in tools)
    return (
        "You can call these tools, described as JSON:\n"
        f"<tools>\n{described}\n</tools>\n"
        'To call a tool, write <tool_call>{"name": "tool", "arguments": {"key": "value"}}</tool_call>.'
    )


def api_name(name: str) -> str:
    """Return a tool's name in a form that every API accepts: letters, digits, ``_`` and ``-``, up to 64 characters."""
    return TOOL_NAME.sub("_", name)[:64] or "_"
