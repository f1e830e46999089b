"""Messages between agent and environment: their parts, observations, and actions."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ..errors import UnparseableError

MAX_DEPTH = 100
"""Maximum depth of lists and objects in the arguments of a tool call; JSON libraries fail at a few hundred."""
Role = Literal["system", "user", "assistant", "tool"]


def shown(value: object) -> str:
    """Return the type and value of what an author returned, for messages: ``an int, 3``."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}, {value!r:.60}"


@dataclass(frozen=True, slots=True)
class TextPart:
    """A stretch of text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An encoded image, e.g. a screenshot."""

    data: bytes
    mime: str = "image/png"

    @property
    def base64(self) -> str:
        """Return the data as text, in the form that protocols use."""
        return base64.b64encode(self.data).decode()

    @property
    def data_url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.mime};base64,{self.base64}"


Part = TextPart | ImagePart


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of an assistant message, with JSON-able ``arguments``."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


def call_text(call: ToolCall) -> str:
    """Return a tool call in human-readable form: ``search(title="Emma", limit=5)``."""
    arguments = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False, default=str)}" for k, v in call.arguments.items())
    return f"{call.name}({arguments})"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Args:
        role: the role of the speaker.
        parts: text and images, in order.
        tool_calls: the calls that an assistant message requests.
        name: the tool's name on a ``tool`` message.
        tool_call_id: the id of the call that a ``tool`` message answers.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    def with_text(self, text: str) -> Message:
        """Return the message with its text replaced by one part; images follow it."""
        images = tuple(part for part in self.parts if isinstance(part, ImagePart))
        return Message(self.role, (TextPart(text), *images), self.tool_calls, self.name, self.tool_call_id)


def message(role: Role, text: str) -> Message:
    """Return a message of one text part."""
    return Message(role, (TextPart(text),))


@dataclass(frozen=True, slots=True)
class Observation:
    """The *new* messages of this turn, never the history, which the agent keeps."""

    messages: tuple[Message, ...] = ()

    @property
    def text(self) -> str:
        """The text of all messages, joined by newlines."""
        return "\n".join(message.text for message in self.messages)

    @classmethod
    def of(cls, content: ObservationLike) -> Observation:
        """Return an observation from an author's return value: text becomes one user message."""
        if isinstance(content, Observation):
            return content
        if isinstance(content, str):
            return cls((message("user", content),))
        if isinstance(content, Message):
            return cls((content,))
        if isinstance(content, Iterable):
            messages = tuple(content)
            if all(isinstance(item, Message) for item in messages):
                return cls(messages)
        raise TypeError(f"an observation must be text, a Message or several Messages; got {type(content).__name__}")


ObservationLike = str | Message | Sequence[Message] | Observation


@dataclass(frozen=True, slots=True)
class Action:
    """An assistant message: text and/or tool calls.

    ``problem`` is set by an action parser that could not read the completion: the environment then shows it to
    the agent as the next observation instead of acting.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    problem: str | None = None

    def __eq__(self, other: object) -> bool:
        """Compare two actions. An environment that compares one with text would find no answer right, ever.

        Raises:
            TypeError: ``other`` is text.
        """
        if isinstance(other, str):
            raise TypeError(f"an Action is not text: write action.text == {clip(other, 40)!r}, or action.word() == …")
        if not isinstance(other, Action):
            return NotImplemented
        return (self.text, self.tool_calls, self.problem) == (other.text, other.tool_calls, other.problem)

    @classmethod
    def of(cls, content: ActionLike) -> Action:
        """Return an action from a string, a tool call or an action."""
        if isinstance(content, Action):
            return content
        if isinstance(content, str):
            return cls(content)
        if isinstance(content, ToolCall):
            return cls(tool_calls=(content,))
        raise TypeError(f"an action must be text, a ToolCall or an Action; got {shown(content)}")

    @property
    def message(self) -> Message:
        """Return the assistant message for this action."""
        return Message("assistant", (TextPart(self.text),) if self.text else (), self.tool_calls)

    def word(self) -> str:
        """Return the text, stripped and in lower case.

        Raises:
            UnparseableError: there is no text; the environment turns it into an observation.
        """
        text = self.text.strip().lower()
        if not text:
            raise UnparseableError("Your action was empty. Answer with text.")
        return text

    def integer(self) -> int:
        """Return the only integer in the text.

        Raises:
            UnparseableError: there is none, or several.
        """
        found = re.findall(r"(?<![\w.])-?\d+(?![\w.]*\d)", self.text)
        if len(found) != 1 or len(found[0].lstrip("-")) > 18:
            raise UnparseableError(f"Answer with one whole number; got {clip(self.text)!r}.")
        return int(found[0])

    def choice(self, options: Sequence[str]) -> str:
        """Return the option that equals the text, ignoring case and surrounding space.

        Raises:
            UnparseableError: the text is none of them.
        """
        text = self.text.strip().casefold()
        for option in options:
            if option.casefold() == text:
                return option
        raise UnparseableError(f"Answer with one of: {', '.join(options)}; got {clip(self.text)!r}.")


def bounded(action: Action) -> Action:
    """Return an action, or one with a ``problem`` in place of an action that is nested too deeply.

    Copies, pipes and JSON fail at a few hundred levels, each at another one. With one limit before them, an agent gets
    the same answer at every distance.
    """
    if any(_deeper(call.arguments, MAX_DEPTH) for call in action.tool_calls):
        return Action(problem=f"Your action is nested too deeply: at most {MAX_DEPTH} lists and objects in each other.")
    return action


def _deeper(value: Any, limit: int) -> bool:
    """Whether lists and objects are nested deeper than ``limit``, without recursion."""
    waiting, children = [(value, 1)], cast("Iterable[Any]", ())
    while waiting:
        inner, depth = waiting.pop()
        if isinstance(inner, Mapping):
            children = inner.values()
        elif isinstance(inner, list | tuple):
            children = inner
        else:
            continue
        if depth > limit:
            return True
        waiting.extend((child, depth + 1) for child in children)
    return False


ActionLike = str | ToolCall | Action


def clip(text: str, limit: int = 60) -> str:
    """Return text short enough to quote."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
