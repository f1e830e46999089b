"""Tool calls in text: the shared part of all dialects, and the dialect of Hermes and Qwen."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from ..envs.messages import Action, ToolCall, clip
from ..inference.bounded_json import no_constant
from .tags import between
from .thoughts import NEVER_CLOSED, without_thoughts

OWN_LINE = re.compile(r"<tool_call>(\\n|\n)")
"""A template that breaks the line after the tag; inside its strings, the break is an escape."""


class MalformedCallError(ValueError):
    """Raised when a call in a completion cannot be parsed; the message goes to the model."""


class CallParser(ABC):
    """Base class of the dialects: text outside calls and thoughts is the action's text, a bad call its problem.

    A message without calls is plain text.

    Args:
        tools: JSON descriptions of the tools, for dialects that read arguments by their schema.
        source: chat template, for dialects with several versions.
    """

    NAME: ClassVar[str]
    HOW: ClassVar[str]
    """Instructions for writing a call, for prompts and problems."""

    def __init__(self, tools: Sequence[Mapping[str, Any]] = (), source: str = "") -> None:
        functions = [tool.get("function", tool) for tool in tools]
        self.schemas = {str(one.get("name")): one.get("parameters") or {} for one in functions}
        self.source = source

    @property
    def how(self) -> str:
        """Instructions for the present model to write a call."""
        return self.HOW

    def parse(self, text: str) -> Action:
        """Read every call, or the first problem among them."""
        rest, open_thought = without_thoughts(text)
        if open_thought:
            return Action(problem=f"{NEVER_CLOSED} {self.how}")
        try:
            said, calls = self.split(rest)
        except MalformedCallError as error:
            return Action(problem=f"{error}. {self.how}")
        return Action(said.strip(), tuple(calls))

    @abstractmethod
    def split(self, text: str) -> tuple[str, Sequence[ToolCall]]:
        """Separate text from calls.

        Raises:
            MalformedCallError: a call cannot be parsed.
        """

    def format(self, action: Action) -> str:
        """Write the text, then the calls."""
        calls = self.written(action.tool_calls) if action.tool_calls else ""
        return "\n".join(filter(None, (action.text, calls)))

    @abstractmethod
    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write at least one call."""


class ToolCallParser(CallParser):
    """Hermes and Qwen: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, any number of them."""

    NAME = "tools"
    HOW = 'Write each call as <tool_call>{"name": "tool", "arguments": {"key": "value"}}</tool_call>.'

    def split(self, text: str) -> tuple[str, Sequence[ToolCall]]:
        """Read the JSON of each pair of tags."""
        said, found = tagged(text, "<tool_call>", "</tool_call>")
        return said, [call_from(decoded(piece, number), number) for number, piece in enumerate(found, 1)]

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write JSON in tags, on lines of its own if the template does."""
        line = "\n" if OWN_LINE.search(self.source) else ""
        return "\n".join(f"<tool_call>{line}{call_json(call)}{line}</tool_call>" for call in calls)


def nine_characters(id: str) -> str:
    """Return an id of nine letters and digits, as Mistral's templates demand; unchanged if it is one already."""
    return id if re.fullmatch(r"[a-zA-Z0-9]{9}", id) else hashlib.sha256(id.encode()).hexdigest()[:9]


def tagged(text: str, opening: str, closing: str) -> tuple[str, list[str]]:
    """Return the text outside, and the texts inside of each pair of delimiters."""
    pieces = between(text, opening, closing)
    said = " ".join(filter(None, (piece.strip() for piece in pieces[::2])))
    if opening in said or closing in said:
        raise MalformedCallError(f"A {opening} was opened or closed without its pair")
    return said, pieces[1::2]


def decoded(source: str, number: int) -> Any:
    try:
        data = json.loads(source, parse_constant=no_constant)
        source.encode()
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        refuse(number, f"not valid JSON ({error.msg} at character {error.pos}): {clip(source.strip())!r}")
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else clip(str(error))
        refuse(number, f"not JSON that a tool can take ({reason})")
    return data


def call_from(data: Any, number: int) -> ToolCall:
    """Build a call from an object with a name and arguments."""
    if not isinstance(data, dict):
        refuse(number, f"a call is a JSON object; got {clip(dumped(data))!r}")
    inner = data["function"] if isinstance(data.get("function"), dict) else data
    arguments = inner.get("arguments", inner.get("parameters", {}))
    id = data.get("id")
    return named_call(inner.get("name"), arguments, number, id if isinstance(id, str) else "")


def named_call(name: Any, arguments: Any, number: int, id: str = "") -> ToolCall:
    if not isinstance(name, str) or not name:
        refuse(number, 'the call has no "name"')
    if not isinstance(arguments, dict):
        refuse(number, f'"arguments" must be a JSON object; got {clip(dumped(arguments))}')
    return ToolCall(name, arguments, id or f"call_{number}")


def refuse(number: int, reason: str) -> NoReturn:
    raise MalformedCallError(f"Tool call {number}: {reason}")


def call_json(call: ToolCall, *, arguments: str = "arguments", **more: str) -> str:
    return dumped({"name": call.name, arguments: dict(call.arguments), **more})


def arguments_json(call: ToolCall) -> str:
    return dumped(dict(call.arguments))


def dumped(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def described(tools: Sequence[Mapping[str, Any]], how: str) -> str:
    """Describe tools in a system message, for chat templates that have no place for them."""
    return "\n".join(("You can call these tools:", *map(dumped, tools), how))
