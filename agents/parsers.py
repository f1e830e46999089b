"""Action parsers: from a model's text to an action, and back. No text of a model makes one raise."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..envs.messages import Action, ToolCall
from ..errors import ModelError, UsageError
from .tags import inside
from .thoughts import NEVER_CLOSED, without_thoughts
from .tool_calls import ToolCallParser
from .tool_dialects import CALL_PARSERS


class ActionParser(Protocol):
    """Reads an action from a completion, and writes one as a model should."""

    def parse(self, text: str) -> Action:
        """Return the action in ``text``; if it cannot be parsed, ``Action.problem`` says how to write it."""
        ...

    def format(self, action: Action) -> str:
        """Return the text that ``parse`` reads as ``action``; demonstrations are written with it.

        Raises:
            ModelError: this parser cannot write such an action.
        """
        ...


class TextParser:
    """The text outside of thoughts is the action."""

    def parse(self, text: str) -> Action:
        """Return the text as it is, without thoughts."""
        rest, open_thought = without_thoughts(text)
        return Action(problem=NEVER_CLOSED) if open_thought else Action(rest)

    def format(self, action: Action) -> str:
        """Return the action's text."""
        _refuse_calls(action, "text")
        return action.text


class TaggedParser:
    """``<action>…</action>``, after an optional ``<think>…</think>``.

    Text outside the tags never reaches the environment.
    """

    def parse(self, text: str) -> Action:
        """Return the text between the only pair of action tags outside thoughts."""
        rest, open_thought = without_thoughts(text)
        if open_thought:
            return Action(problem=f"{NEVER_CLOSED} Write <action>your action</action>.")
        found = inside(rest, "action")
        if len(found) == 1 and "<action>" not in found[0]:
            return Action(found[0].strip())
        count = "none" if not found else f"{len(found)}" if len(found) > 1 else "a nested one"
        return Action(problem=f"Write exactly one action, as <action>your action</action>; found {count}.")

    def format(self, action: Action) -> str:
        """Return the action's text in tags."""
        _refuse_calls(action, "tagged")
        return f"<action>{action.text}</action>"


class SearchTagsParser:
    """Search-R1's protocol: ``<search>…</search>`` or ``<answer>…</answer>``, after any thoughts (2503.09516).

    The first of them is the action, since everything after it was written without knowing the result. If a model writes
    ``<information>…</information>`` itself, that is an invention, and nothing in it is an action.
    """

    HOW = "Write <search>words to search for</search> or <answer>your answer</answer>."
    OPENING = re.compile(r"<(think|information|search|answer)>")
    TAG = re.compile(r"</?(?:search|answer)>")

    def parse(self, text: str) -> Action:
        """Return the first search or answer outside thoughts and invented information, in linear time."""
        before, closed, after = text.partition("</think>")
        if closed and "<think>" not in before:
            text = after  # the prompt opened this thought
        at = 0
        while opening := self.OPENING.search(text, at):
            tag, begin = opening[1], opening.end()
            if tag in ("search", "answer"):
                return self._action(tag, text, begin)
            end = text.find(f"</{tag}>", begin)
            if end < 0 and tag == "think":
                return Action(problem=f"{NEVER_CLOSED} {self.HOW}")
            if end < 0:
                break
            at = end + len(f"</{tag}>")
        alone = self.TAG.search(text)
        return Action(
            problem=f"{alone.group()} has no pair. {self.HOW}" if alone else f"There is no action. {self.HOW}"
        )

    def _action(self, tag: str, text: str, begin: int) -> Action:
        """Return the action between a tag and its closing tag."""
        end = text.find(f"</{tag}>", begin)
        if end < 0:
            return Action(problem=f"<{tag}> has no pair. {self.HOW}")
        if self.TAG.search(text, begin, end):
            return Action(problem=f"One tag stands in another. {self.HOW}")
        name, argument = ("search", "query") if tag == "search" else ("answer", "text")
        return Action(tool_calls=(ToolCall(name, {argument: text[begin:end].strip()}, "call_1"),))

    def format(self, action: Action) -> str:
        """Return the one search or answer in tags, after the other text."""
        calls = [(call.name, dict(call.arguments)) for call in action.tool_calls]
        match calls:
            case [("search", {"query": str(inside), **rest})] if not rest:
                name = "search"
            case [("answer", {"text": str(inside), **rest})] if not rest:
                name = "answer"
            case _:
                raise ModelError(f"the 'search' parser writes one search(query) or answer(text); got {calls!r:.120}")
        written = f"{action.text}<{name}> {inside} </{name}>"
        read = [(call.name, list(call.arguments.values())) for call in self.parse(written).tool_calls]
        if read != [(name, [inside.strip()])]:
            raise ModelError(
                f"the 'search' parser would not read back {written!r:.120}; remove <search>, <answer>, <think>, "
                "<information> and their closing tags from the query, the answer and the text before it"
            )
        return written


PARSERS: dict[str, type[ActionParser]] = {
    "text": TextParser,
    "tagged": TaggedParser,
    "search": SearchTagsParser,
    **CALL_PARSERS,
}
AUTO = "auto"
"""The name that leaves the choice of a parser to the environment and the chat template."""


def action_parser(name: str | ActionParser) -> ActionParser:
    """Return the parser called ``name`` in a configuration; a parser is passed through.

    Raises:
        UsageError: there is no such parser.
    """
    if not isinstance(name, str):
        return name
    if name not in PARSERS:
        raise UsageError(f"action parser {name!r} is unknown; choose one of {', '.join((AUTO, *PARSERS))}")
    return PARSERS[name]()


def parser_for(
    name: str | ActionParser,
    tools: Sequence[Mapping[str, Any]],
    *,
    dialect: str = ToolCallParser.NAME,
    source: str = "",
) -> ActionParser:
    """Return the parser for one environment and one model.

    Args:
        name: name from a configuration; ``auto`` reads tool calls if the environment has tools, and text otherwise.
        tools: JSON descriptions of the environment's tools.
        dialect: dialect of the model's tool calls.
        source: chat template of the model.

    Raises:
        UsageError: there is no such parser.
    """
    if name == AUTO:
        name = dialect if tools else "text"
    if isinstance(name, str) and name in CALL_PARSERS:
        return CALL_PARSERS[name](tools, source)
    return action_parser(name)


def text_of(action: Action, parser: ActionParser) -> str:
    """Return the text of an action as ``parser`` writes it, or what is known of the text of an unparsed action.

    Raises:
        ModelError: the parser cannot write such an action.
    """
    return action.text if action.problem is not None else parser.format(action)


def _refuse_calls(action: Action, name: str) -> None:
    if action.tool_calls:
        called = ", ".join(call.name for call in action.tool_calls)
        raise ModelError(f"the {name!r} parser cannot write tool calls ({called}); use parser 'auto'")
