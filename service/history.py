"""What a client sends back, as ids: what the policy said is found again and never encoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..agents.template import ChatTemplate
from ..agents.transcript import Entry, Transcript, Utterance
from ..envs.messages import Message
from ..errors import ModelError, RequestError

REMEMBERED = 64
"""Conversations whose ids are kept; an older one that goes on is put together again from what was sampled in it."""


@dataclass(slots=True, eq=False)
class Place:
    """A point in the tree of all conversations: what was said last, and what came after it."""

    entry: Entry | None = None
    after: dict[bytes, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the policy is to read.

    Args:
        ids: exactly.
        new: the client's messages since the policy last spoke in this conversation; all of them in a new row.
        place: where what it says will stand.
    """

    ids: tuple[int, ...]
    new: tuple[Message, ...]
    place: Place


@dataclass(slots=True, eq=False)
class _Line:
    tools: str
    entries: tuple[Entry, ...]
    transcript: Transcript


class History:
    """The conversations of one client: messages in, ids out, growing only at the end or beginning a new row.

    A client keeps the conversation itself and sends all of it each time. Here it is looked up, message by message, in
    a tree of what was sent and said before, so that an assistant message of the policy's own stands for the ids that
    were sampled. Where the client changed history, the prompt begins a new row; what the policy said still enters it
    as the ids that it sampled.

    Args:
        template: the policy's chat template.
        follow_template: begin a new row where the template rewrites history; see ``Transcript``.
    """

    def __init__(self, template: ChatTemplate, *, follow_template: bool = True) -> None:
        self._template, self._follow = template, follow_template
        self._root = Place()
        self._said: dict[bytes, Utterance] = {}
        self._lines: list[_Line] = []

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> Prompt:
        """The ids that the policy reads.

        Raises:
            RequestError: the chat template would not show the tools.
            ModelError: the chat template refuses the messages.
        """
        place, entries = self._root, list[Entry]()
        for each in messages:
            place = self._next(place, each)
            assert place.entry is not None
            entries.append(place.entry)
        key = json.dumps(list(tools), sort_keys=True)
        line = self._fitting(key, entries)
        known = len(line.entries) if line is not None else 0
        if line is None:
            rendering = self._template.bind(tools)
            if not rendering.shows_tools:
                raise RequestError(
                    "the policy's chat template does not show tools; describe them in a system message, or use a model "
                    "whose template has tools",
                    param="tools",
                )
            line = _Line(key, (), Transcript(rendering, follow_template=self._follow))
            self._lines = [*self._lines[1 - REMEMBERED :], line]
        try:
            ids = line.transcript.prompt(entries)
        except ModelError:
            self._lines.remove(line)  # it may have read half of them
            raise
        line.entries = tuple(entries)
        new = messages if known == 0 else [entry for entry in entries[known:] if isinstance(entry, Message)]
        return Prompt(ids, tuple(new), place)

    def said(self, prompt: Prompt, utterance: Utterance, reply: Message) -> None:
        """Remember what the policy said there, by the message that the client was given for it."""
        key = _key(reply)
        self._said[key] = utterance
        prompt.place.after[key] = Place(utterance)

    def _next(self, place: Place, sent: Message) -> Place:
        key = _key(sent)
        if key not in place.after:
            place.after[key] = Place(self._said.get(key, sent) if sent.role == "assistant" else sent)
        return place.after[key]

    def _fitting(self, tools: str, entries: Sequence[Entry]) -> _Line | None:
        """The longest conversation that these entries go on with, or repeat."""
        fitting = [line for line in self._lines if line.tools == tools and _goes_on(line.entries, entries)]
        return max(fitting, key=lambda line: len(line.entries), default=None)


def _goes_on(before: Sequence[Entry], entries: Sequence[Entry]) -> bool:
    size = len(before)
    if size > len(entries) or any(a is not b for a, b in zip(before, entries, strict=False)):
        return False
    return size == len(entries) or isinstance(entries[size], Utterance)


def _key(sent: Message) -> bytes:
    """What makes two messages the same, though clients repeat what an assistant said in a form of their own.

    White space around its text, the ids of its tool calls, and the order and spacing of their arguments do not count.
    """
    calls = [(call.name, dict(call.arguments)) for call in sent.tool_calls]
    text = sent.text.strip() if sent.role == "assistant" else sent.text
    told = [sent.role, text, calls, sent.name, sent.tool_call_id]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest()
