"""Action parsers: from what a model wrote to an action, and back. Nothing a model writes makes one raise."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from ..envs.messages import Action, ToolCall, clip
from ..errors import ModelError, UsageError
from .tags import apart, inside, without


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
    """The whole text is the action."""

    def parse(self, text: str) -> Action:
        """The text as it is."""
        return Action(text)

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
            return Action(problem="Your <think> was never closed. Write </think>, then <action>your action</action>.")
        found = inside(rest, "action")
        if len(found) == 1 and "<action>" not in found[0]:
            return Action(found[0].strip())
        count = "none" if not found else f"{len(found)}" if len(found) > 1 else "a nested one"
        return Action(problem=f"Write exactly one action, as <action>your action</action>; found {count}.")

    def format(self, action: Action) -> str:
        """The action's text in tags."""
        _refuse_calls(action, "tagged")
        return f"<action>{action.text}</action>"


class ToolCallParser:
    """Hermes and Qwen style calls: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, any number of them.

    Text outside calls and thoughts stays the action's text; a message without calls is plain speech.
    """

    HOW = 'Write each call as <tool_call>{"name": "tool", "arguments": {"key": "value"}}</tool_call>.'

    def parse(self, text: str) -> Action:
        """Every call, or the first problem among them."""
        rest, open_thought = without_thoughts(text)
        if open_thought:
            return Action(problem=f"Your <think> was never closed. Write </think> first. {self.HOW}")
        pieces = apart(rest, "tool_call")
        said = " ".join(filter(None, (piece.strip() for piece in pieces[::2])))
        if "<tool_call>" in said or "</tool_call>" in said:
            return Action(problem=f"A <tool_call> was opened or closed without its pair. {self.HOW}")
        calls: list[ToolCall] = []
        for number, piece in enumerate(pieces[1::2], 1):
            call = self._call(piece, number)
            if isinstance(call, str):
                return Action(problem=f"Tool call {number}: {call}. {self.HOW}")
            calls.append(call)
        return Action(said, tuple(calls))

    def _call(self, source: str, number: int) -> ToolCall | str:
        try:
            data = json.loads(source, parse_constant=_no_constant)
            source.encode()
            json.dumps(data, ensure_ascii=False).encode()
        except json.JSONDecodeError as error:
            return f"not valid JSON ({error.msg} at character {error.pos}): {clip(source.strip())!r}"
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else clip(str(error))
            return f"not JSON that a tool can take ({reason})"
        if not isinstance(data, dict):
            return f"a call is a JSON object; got {clip(source.strip())!r}"
        name = data.get("name")
        arguments = data.get("arguments", data.get("parameters", {}))
        if not isinstance(name, str) or not name:
            return 'the call has no "name"'
        if not isinstance(arguments, dict):
            return f'"arguments" must be a JSON object; got {clip(json.dumps(arguments))}'
        return ToolCall(name, arguments, f"call_{number}")

    def format(self, action: Action) -> str:
        """The text, then one line of JSON in tags per call."""
        calls = [
            f"<tool_call>{json.dumps({'name': c.name, 'arguments': dict(c.arguments)}, ensure_ascii=False)}</tool_call>"
            for c in action.tool_calls
        ]
        return "\n".join(filter(None, (action.text, *calls)))


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
                return Action(problem=f"Your <think> was never closed. Write </think> first. {self.HOW}")
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
                f"the 'search' parser would not read back {written!r:.120}; leave <search>, <answer>, <think>, "
                "<information> and their ends out of what is searched for, answered or said before it"
            )
        return written


PARSERS: dict[str, type[ActionParser]] = {
    "text": TextParser,
    "tagged": TaggedParser,
    "tools": ToolCallParser,
    "search": SearchTagsParser,
}


def action_parser(name: str | ActionParser) -> ActionParser:
    """The parser called ``name`` in a configuration: "text", "tagged", "tools" or "search"; a parser is passed through.

    Raises:
        UsageError: there is no such parser.
    """
    if not isinstance(name, str):
        return name
    if name not in PARSERS:
        raise UsageError(f"action parser {name!r} is unknown; choose one of {', '.join(PARSERS)}")
    return PARSERS[name]()


def without_thoughts(text: str) -> tuple[str, bool]:
    """The text without its ``<think>…</think>``, and whether one was left open.

    A ``</think>`` without its opening closes a thought that the prompt opened, as Qwen3's template may.
    """
    rest = without(text, "think")
    _, closed, after = rest.rpartition("</think>")
    rest = after if closed else rest
    return rest, "<think>" in rest


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_calls(action: Action, name: str) -> None:
    if action.tool_calls:
        called = ", ".join(call.name for call in action.tool_calls)
        raise ModelError(f"the {name!r} parser cannot write tool calls ({called}); use parser 'tools'")
