"""The dialects in which model families write tool calls, and how to recognize one in a chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..envs.messages import Action, ToolCall
from ..inference.bounded_json import no_constant
from .tags import between
from .tool_calls import (
    CallParser,
    MalformedCallError,
    ToolCallParser,
    arguments_json,
    call_from,
    call_json,
    decoded,
    named_call,
    nine_characters,
    refuse,
    tagged,
)
from .xml_calls import GlmParser, QwenCoderParser, SeedParser


class LlamaParser(CallParser):
    """Llama 3: a message that is a JSON object with ``name`` and ``parameters``, or several with ``;`` between them.

    ``<|python_tag|>`` may stand before them, and text before that.
    """

    NAME = "llama"
    HOW = 'To call a tool, write nothing but {"name": "tool", "parameters": {"key": "value"}}.'
    TAG = "<|python_tag|>"
    BEGINS = re.compile(r'\s*\{\s*"(?:type|name|function|parameters|arguments)"\s*:')

    def split(self, text: str) -> tuple[str, Sequence[ToolCall]]:
        """Read JSON objects from the tag on, or from the beginning if the text begins as a call does."""
        if self.BEGINS.match(text):  # the tag, if any, is in an argument
            said, rest = "", text
        else:
            said, tag, rest = text.partition(self.TAG)
            if not tag:
                return text, []
            if not rest.strip():
                raise MalformedCallError(f"There is no call after {self.TAG}")
        return said, [call_from(data, number) for number, data in enumerate(_objects(rest.strip()), 1)]

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write JSON objects, as the family's template asks for."""
        return "; ".join(call_json(call, arguments="parameters") for call in calls)

    def format(self, action: Action) -> str:
        """Write calls; only after other text, put the tag before them."""
        if not (action.text and action.tool_calls):
            return super().format(action)
        return f"{action.text}{self.TAG}{self.written(action.tool_calls)}"


class MistralParser(CallParser):
    """Mistral: ``[TOOL_CALLS]`` and a JSON list, or ``[TOOL_CALLS]name[ARGS]{…}`` per call since version 11."""

    NAME = "mistral"
    HOW = 'Write calls as [TOOL_CALLS][{"name": "tool", "arguments": {"key": "value"}}].'
    BEGIN, ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"

    @property
    def how(self) -> str:
        """Instructions for the version in the template."""
        return 'Write each call as [TOOL_CALLS]tool[ARGS]{"key": "value"}.' if self._named else self.HOW

    @property
    def _named(self) -> bool:
        return self.ARGUMENTS in self.source

    def split(self, text: str) -> tuple[str, Sequence[ToolCall]]:
        """Read either form, independent of the template's version."""
        said, *pieces = text.split(self.BEGIN)
        if len(pieces) == 1 and (self.ARGUMENTS not in pieces[0] or pieces[0].lstrip().startswith("[")):
            data = decoded(pieces[0], 1)
            return said, [
                call_from(one, number) for number, one in enumerate(data if isinstance(data, list) else [data], 1)
            ]
        return said, [self._one(piece, number) for number, piece in enumerate(pieces, 1)]

    def _one(self, piece: str, number: int) -> ToolCall:
        head, mark, arguments = piece.partition(self.ARGUMENTS)
        name, _, id = head.partition(self.ID)
        if not mark:
            refuse(number, "the name is not followed by [ARGS]")
        return named_call(name.strip(), decoded(arguments, number), number, id.strip())

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write in the version of the template."""
        if self._named:
            return "".join(
                f"{self.BEGIN}{call.name}{self._id(call)}{self.ARGUMENTS}{arguments_json(call)}" for call in calls
            )
        return f"{self.BEGIN}[{', '.join(call_json(call, id=nine_characters(call.id)) for call in calls)}]"

    def _id(self, call: ToolCall) -> str:
        return f"{self.ID}{nine_characters(call.id)}" if self.ID in self.source else ""


class DeepSeekParser(CallParser):
    """DeepSeek: V3 and R1 write a name and a block of JSON between their control tokens, V3.1 a name and JSON."""

    NAME = "deepseek"
    BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    CALL, CLOSE, SEPARATOR = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
    HOW = f'Write calls as {BEGIN}{CALL}tool{SEPARATOR}{{"key": "value"}}{CLOSE}{END}.'
    FENCE = "```"

    @property
    def how(self) -> str:
        """Instructions for the version in the template."""
        if not self._fenced:
            return self.HOW
        call = self.written([ToolCall("tool", {"key": "value"})])
        return f"Write calls as {call}."

    @property
    def _fenced(self) -> bool:
        return f"{self.FENCE}json" in self.source

    def split(self, text: str) -> tuple[str, Sequence[ToolCall]]:
        """Read either form, independent of the template's version."""
        said, found = tagged(text, self.BEGIN, self.END)
        calls = [call for block in found for call in between(block, self.CALL, self.CLOSE)[1::2]]
        if found and not calls:
            raise MalformedCallError("There is no call between the beginning and the end of calls")
        return said, [self._one(call, number) for number, call in enumerate(calls, 1)]

    def _one(self, piece: str, number: int) -> ToolCall:
        head, separator, rest = piece.partition(self.SEPARATOR)
        if not separator:
            refuse(number, f"{self.SEPARATOR} is missing")
        name, fence, block = rest.partition(f"{self.FENCE}json")
        if fence and not name.lstrip().startswith("{"):
            head, rest = name, block.rpartition(self.FENCE)[0]
        return named_call(head.strip(), decoded(rest, number), number)

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write in the version of the template."""
        if self._fenced:
            body = "\n".join(
                f"{self.CALL}function{self.SEPARATOR}{call.name}\n{self.FENCE}json\n{arguments_json(call)}\n{self.FENCE}"
                f"{self.CLOSE}"
                for call in calls
            )
        else:
            body = "".join(
                f"{self.CALL}{call.name}{self.SEPARATOR}{arguments_json(call)}{self.CLOSE}" for call in calls
            )
        return f"{self.BEGIN}{body}{self.END}"


class PhiParser(CallParser):
    """Phi-4-mini: ``<|tool_call|>`` around a JSON list of calls. Granite's list ends with the message."""

    NAME = "phi"
    HOW = 'Write calls as <|tool_call|>[{"name": "tool", "arguments": {"key": "value"}}]<|/tool_call|>.'

    def split(self, text: str) -> tuple[str, Sequence[ToolCall]]:
        """Read each list."""
        said, begin, rest = text.partition("<|tool_call|>")
        if begin and "<|/tool_call|>" not in rest:
            text = f"{said}{begin}{rest}<|/tool_call|>"
        said, found = tagged(text, "<|tool_call|>", "<|/tool_call|>")
        data = [decoded(piece, number) for number, piece in enumerate(found, 1)]
        flat = [one for each in data for one in (each if isinstance(each, list) else [each])]
        if found and not flat:
            raise MalformedCallError("The list of calls is empty")
        return said, [call_from(one, number) for number, one in enumerate(flat, 1)]

    def written(self, calls: Sequence[ToolCall]) -> str:
        """Write one list."""
        return f"<|tool_call|>[{', '.join(map(call_json, calls))}]<|/tool_call|>"


def _objects(text: str) -> Iterable[Any]:
    """JSON values with ``;`` between them."""
    decoder, at, number = json.JSONDecoder(parse_constant=no_constant), 0, 0
    while at < len(text):
        number += 1
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = len(text)
        data = decoded(text[at:end], number)
        yield from data if isinstance(data, list) else [data]
        at = end + len(text[end:]) - len(text[end:].lstrip("; \n"))


CALL_PARSERS: Mapping[str, type[CallParser]] = {
    kind.NAME: kind
    for kind in (
        ToolCallParser,
        LlamaParser,
        MistralParser,
        DeepSeekParser,
        GlmParser,
        PhiParser,
        QwenCoderParser,
        SeedParser,
    )
}
"""The dialects by the names that settings have for them."""
MARKS = (
    ("deepseek", "<｜tool▁call"),
    ("mistral", "[TOOL_CALLS]"),
    ("glm", "<arg_key>"),
    ("seed", "<seed:tool_call>"),
    ("qwen-coder", "<function="),
    ("phi", "<|tool_call|>"),
    ("llama", "<|python_tag|>"),
    ("llama", "<|start_header_id|>"),
    ("tools", "<tool_call>"),
)
"""Marks of a dialect, the most reliable first."""


def dialect_of(*sources: str) -> str | None:
    """Return the name of a model's dialect; ``None`` if it has no marks.

    Args:
        sources: chat template, then control tokens, since a vocabulary may have those of several dialects.
    """
    found = (name for source in sources for name, mark in MARKS if mark in source)
    return next(found, None)
