"""Tool calls with a tag for each argument: the dialects of GLM, Qwen3-Coder and Seed-OSS."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..envs.messages import ToolCall
from .tags import between
from .tool_calls import CallParser, MalformedCallError, decoded, dumped, named_call, refuse, tagged


class XmlParser(CallParser):
    """Base class of dialects with a tag per argument: string arguments are written as they are, others as JSON."""

    OPEN, CLOSE = "<tool_call>", "</tool_call>"

    def split(self, text: str) -> tuple[str, Sequence[ToolCall]]:
        """Read each pair of tags as one call."""
        said, found = tagged(text, self.OPEN, self.CLOSE)
        return said, [self.one(piece, number) for number, piece in enumerate(found, 1)]

    @abstractmethod
    def one(self, piece: str, number: int) -> ToolCall:
        """Read the content of one pair of tags.

        Raises:
            MalformedCallError: it is not a call.
        """

    def value(self, tool: str, argument: str, text: str) -> Any:
        """Read an argument by the tool's schema: as it is if the type is a string, else as JSON if it is valid."""
        types = set(_types(self.schemas.get(tool, {}).get("properties", {}).get(argument, {})))
        if text == "null" and "null" in types:
            return None
        if "string" in types:
            return text
        try:
            return decoded(text, 1)
        except MalformedCallError:
            return text

    def arguments(self, call: ToolCall) -> Iterable[tuple[str, str]]:
        """Yield names and texts of a call's arguments."""
        return ((key, one if isinstance(one, str) else dumped(one)) for key, one in call.arguments.items())


class GlmParser(XmlParser):
    """GLM since 4.5: ``<tool_call>name`` with ``<arg_key>`` and ``<arg_value>`` for each argument."""

    NAME = "glm"
    HOW = "Write each call as <tool_call>tool<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>."

    def one(self, piece: str, number: int) -> ToolCall:
        """Read the name up to the first key, then keys and values in pairs."""
        name, *_ = (head.strip() for head in piece.split("<arg_key>", 1))
        keys = between(piece, "<arg_key>", "</arg_key>")[1::2]
        values = between(piece, "<arg_value>", "</arg_value>")[1::2]
        if len(keys) != len(values):
            refuse(number, f"it has {len(keys)} keys and {len(values)} values")
        given = {key.strip(): self.value(name, key.strip(), one) for key, one in zip(keys, values, strict=True)}
        return named_call(name, given, number)

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write each key and value on a line."""
        return "\n".join(
            f"<tool_call>{call.name}\n"
            + "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{one}</arg_value>\n" for key, one in self.arguments(call))
            + "</tool_call>"
            for call in calls
        )


class QwenCoderParser(XmlParser):
    """Qwen3-Coder: ``<function=name>`` with a ``<parameter=key>`` for each argument, in ``<tool_call>``."""

    NAME = "qwen-coder"
    HOW = "Write each call as <tool_call><function=tool><parameter=key>value</parameter></function></tool_call>."
    FUNCTION = re.compile(r"\s*<function=([^>\n]*)>(.*)", re.DOTALL)

    def one(self, piece: str, number: int) -> ToolCall:
        """Read the function, then its parameters."""
        function = self.FUNCTION.match(piece)
        if function is None:
            refuse(number, "it has no <function=…>")
        name, given = function[1].strip(), {}
        for inside in between(function[2], "<parameter=", "</parameter>")[1::2]:
            key, _, text = inside.partition(">")
            given[key.strip()] = self.value(name, key.strip(), self.unlined(text))
        return named_call(name, given, number)

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write a line per tag."""
        return "\n".join(
            f"{self.OPEN}\n<function={call.name}>\n"
            + "".join(f"<parameter={key}>{self.line(one)}</parameter>\n" for key, one in self.arguments(call))
            + f"</function>\n{self.CLOSE}"
            for call in calls
        )

    def line(self, value: str) -> str:
        """Put a value on lines of its own."""
        return f"\n{value}\n"

    def unlined(self, text: str) -> str:
        """Remove the line breaks around a value."""
        return text.removeprefix("\n").removesuffix("\n")


class SeedParser(QwenCoderParser):
    """Seed-OSS: as Qwen3-Coder, in ``<seed:tool_call>`` and with values on the line of their tags."""

    NAME = "seed"
    HOW = QwenCoderParser.HOW.replace("tool_call>", "seed:tool_call>")
    OPEN, CLOSE = "<seed:tool_call>", "</seed:tool_call>"

    def line(self, value: str) -> str:
        """Leave the value between its tags."""
        return value

    def unlined(self, text: str) -> str:
        """Return the text between the tags."""
        return text


def _types(schema: Any) -> Iterator[str]:
    """Yield the JSON types that a schema allows, as far as it names types or values."""
    if not isinstance(schema, Mapping):
        return
    named = schema.get("type", ())
    yield from [named] if isinstance(named, str) else named
    if any(isinstance(value, str) for value in [*schema.get("enum", ()), schema.get("const")]):
        yield "string"
    for each in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        yield from _types(each)
