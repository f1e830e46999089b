"""Action parsers: from what a model wrote to an action, and back. Nothing a model writes makes one raise."""

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
    """Reads an action out of a completion, and writes one as a model should."""

    def parse(self, text: str) -> Action:
        """The action that ``text`` asks for; ``Action.problem`` says how to write it where it cannot be read."""
        ...

    def format(self, action: Action) -> str:
        """The text that ``parse`` reads as ``action``; demonstrations are written with it.

        Raises:
            ModelError: this parser has no way of writing such an action.
        """
        ...


class TextParser:
    """The text outside of thoughts is the action."""

    def parse(self, text: str) -> Action:
        """The text as it is, without thoughts."""
        rest, open_thought = without_thoughts(text)
        return Action(problem=NEVER_CLOSED) if open_thought else Action(rest)

    def format(self, action: Action) -> str:
        """The action's text."""
        _refuse_calls(action, "text")
        return action.text


class TaggedParser:
    """``<action>…</action>``, after an optional ``<think>…</think>``.

    What is outside the tags is the agent's own business and never reaches the environment.
    """

    def parse(self, text: str) -> Action:
        """The text between the only pair of action tags outside thoughts."""
        rest, open_thought = without_thoughts(text)
        if open_thought:
            return Action(problem=f"{NEVER_CLOSED} Write <action>your action</action>.")
        found = inside(rest, "action")
        if len(found) == 1 and "<action>" not in found[0]:
            return Action(found[0].strip())
        count = "none" if not found else f"{len(found)}" if len(found) > 1 else "a nested one"
        return Action(problem=f"Write exactly one action, as <action>your action</action>; found {count}.")

    def format(self, action: Action) -> str:
        """The action's text in tags."""
        _refuse_calls(action, "tagged")
        return f"<action>{action.text}</action>"


class SearchTagsParser:
    """Search-R1's protocol: ``<search>…</search>`` or ``<answer>…</answer>``, after any thoughts (2503.09516).

    The first of them is the action, and whatever stands behind it was written without knowing what is found. What a
    model puts between ``<information>`` and ``</information>`` itself is its invention, and nothing in it is an action.
    """

    HOW = "Write <search>words to search for</search> or <answer>your answer</answer>."
    OPENING = re.compile(r"<(think|information|search|answer)>")
    TAG = re.compile(r"</?(?:search|answer)>")

    def parse(self, text: str) -> Action:
        """The first search or answer outside thoughts and invented information; every letter is read a few times."""
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
        """What stands between a tag and its pair."""
        end = text.find(f"</{tag}>", begin)
        if end < 0:
            return Action(problem=f"<{tag}> has no pair. {self.HOW}")
        if self.TAG.search(text, begin, end):
            return Action(problem=f"One tag stands in another. {self.HOW}")
        name, argument = ("search", "query") if tag == "search" else ("answer", "text")
        return Action(tool_calls=(ToolCall(name, {argument: text[begin:end].strip()}, "call_1"),))

    def format(self, action: Action) -> str:
        """The one search or answer in tags, after what else was said."""
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
        name: as in a configuration; ``auto`` reads tool calls where the environment offers tools, and text elsewhere.
        tools: JSON descriptions of what the environment offers.
        dialect: of the model's tool calls.
        source: its chat template.

    Raises:
        UsageError: there is no such parser.
    """
    if name == AUTO:
        name = dialect if tools else "text"
    if isinstance(name, str) and name in CALL_PARSERS:
        return CALL_PARSERS[name](tools, source)
    return action_parser(name)


def text_of(action: Action, parser: ActionParser) -> str:
    """Return the text of an action as ``parser`` writes it; of one that could not be read, what is known of its text.

    Raises:
        ModelError: the parser has no way of writing such an action.
    """
    return action.text if action.problem is not None else parser.format(action)


def _refuse_calls(action: Action, name: str) -> None:
    if action.tool_calls:
        called = ", ".join(call.name for call in action.tool_calls)
        raise ModelError(f"the {name!r} parser cannot write tool calls ({called}); use parser 'auto'")
