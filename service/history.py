"""Convert a client's messages to ids; the policy's own messages map to their sampled ids."""

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
"""Number of conversations whose ids are kept; an older one that continues is rebuilt from its sampled ids."""


@dataclass(slots=True, eq=False)
class HistoryNode:
    """Node in the tree of all conversations: the last message, and what followed it."""

    entry: Entry | None = None
    after: dict[bytes, HistoryNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt for the policy.

    Args:
        ids: exact token ids.
        new: the client's messages since the policy's last answer in this conversation; all of them in a new row.
        place: node under which the policy's answer will be stored.
    """

    ids: tuple[int, ...]
    new: tuple[Message, ...]
    place: HistoryNode


@dataclass(slots=True, eq=False)
class _Line:
    tools: str
    entries: tuple[Entry, ...]
    transcript: Transcript


class History:
    """Conversations of one client: messages in, ids out, growing only at the end or starting a new row.

    A client keeps the conversation itself and sends all of it each time. ``History`` looks it up, message by message,
    in a tree of earlier messages, so that an assistant message of the policy itself maps to the ids that were sampled.
    If the client changed history, the prompt starts a new row; messages of the policy still enter it as their sampled
    ids.

    Args:
        template: chat template of the policy.
        follow_template: whether to start a new row if the template rewrites history; see ``Transcript``.
    """

    def __init__(self, template: ChatTemplate, *, follow_template: bool = True) -> None:
        self._template, self._follow = template, follow_template
        self._root = HistoryNode()
        self._said: dict[bytes, Utterance] = {}
        self._lines: list[_Line] = []

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> Prompt:
        """Return the ids that the policy reads.

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
            line = _Line(key, (), self._transcript(tools))
            self._lines = [*self._lines[1 - REMEMBERED :], line]
        try:
            ids = line.transcript.prompt(entries)
        except ModelError:
            self._lines.remove(line)  # it may have read some of the messages
            raise
        line.entries = tuple(entries)
        new = messages if known == 0 else [entry for entry in entries[known:] if isinstance(entry, Message)]
        return Prompt(ids, tuple(new), place)

    def preview(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return the ids that the policy would read as a new row, and keep nothing.

        Raises:
            RequestError: the chat template would not show the tools.
            ModelError: the chat template refuses the messages.
        """
        return self._transcript(tools).prompt([self._entry(each) for each in messages])

    def _transcript(self, tools: Sequence[Mapping[str, Any]]) -> Transcript:
        rendering = self._template.bind(tools)
        if not rendering.shows_tools:
            raise RequestError(
                "the policy's chat template does not show tools; describe them in a system message, or use a model "
                "whose template has tools",
                param="tools",
            )
        return Transcript(rendering, follow_template=self._follow)

    def said(self, prompt: Prompt, utterance: Utterance, reply: Message) -> None:
        """Store the policy's answer at a node, under the message that the client received for it."""
        key = _key(reply)
        self._said[key] = utterance
        prompt.place.after[key] = HistoryNode(utterance)

    def _next(self, place: HistoryNode, sent: Message) -> HistoryNode:
        key = _key(sent)
        if key not in place.after:
            place.after[key] = HistoryNode(self._entry(sent))
        return place.after[key]

    def _entry(self, sent: Message) -> Entry:
        """Return what stands for a message: the sampled ids if the policy wrote it."""
        return self._said.get(_key(sent), sent) if sent.role == "assistant" else sent

    def _fitting(self, tools: str, entries: Sequence[Entry]) -> _Line | None:
        """Return the longest stored conversation that these entries continue or repeat."""
        fitting = [line for line in self._lines if line.tools == tools and _goes_on(line.entries, entries)]
        return max(fitting, key=lambda line: len(line.entries), default=None)


def _goes_on(before: Sequence[Entry], entries: Sequence[Entry]) -> bool:
    size = len(before)
    if size > len(entries) or any(a is not b for a, b in zip(before, entries, strict=False)):
        return False
    return size == len(entries) or isinstance(entries[size], Utterance)


def _key(sent: Message) -> bytes:
    """Return a key that is equal for equal messages, although clients may reformat an assistant's message.

    It ignores white space around the text, the ids of tool calls, and the order and spacing of their arguments.
    """
    calls = [(call.name, dict(call.arguments)) for call in sent.tool_calls]
    text = sent.text.strip() if sent.role == "assistant" else sent.text
    parts = [sent.role, text, calls, sent.name, sent.tool_call_id]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
