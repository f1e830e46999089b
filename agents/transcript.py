"""Token-exact transcripts: a conversation as ids that only grow at the end, or start a new row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

from ..envs.messages import Message
from ..errors import ModelError
from .template import Rendering, same_text


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """An agent's response with its exact ids; compared by identity, since the same text may occur twice.

    Args:
        ids: sampled ids, including a stop id.
        text: text of the response, for parsers, people and templates.
        closed: whether a stop token was sampled; otherwise the template's closing token belongs to the next prompt.
        unified: the text with ``<think>`` and ``</think>`` as delimiters of thoughts, for models with other delimiters
            and prompts that open a thought; empty if it is unknown.
    """

    ids: tuple[int, ...]
    text: str
    closed: bool
    unified: str = ""


Entry = Message | Utterance


class Transcript:
    """Turns a conversation into prompts that begin with the previous prompt and the tokens sampled after it.

    Sampled tokens are added as ids and never encoded again; messages are encoded once, when they arrive. This is not
    possible if the context strategy drops messages, or if the chat template rewrites a response (Qwen3's drops
    thoughts). Then the next prompt starts a new row. Trainers see the boundary: that prompt is not an extension.

    Args:
        rendering: the chat template, with the episode's tools.
        follow_template: whether to start a new row where the template rewrites history; otherwise keep the response.
    """

    def __init__(self, rendering: Rendering, *, follow_template: bool = True) -> None:
        self._rendering = rendering
        self._follow = follow_template
        self._entries: list[Entry] = []
        self._ids: tuple[int, ...] = ()
        self._text: tuple[str, ...] = ()
        self._suspect = False  # whether the template may have rewritten a response, which needs a comparison of texts
        self._opened_by_system = False
        self.rows = 0
        """Number of rows so far; every one after the first is a fork."""

    def copy(self) -> Transcript:
        """Return an independent transcript in the same state."""
        return copy(self)

    def prompt(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """Return the ids that the agent reads before its next response.

        Args:
            entries: the conversation to show; objects seen before are recognized by identity.

        Raises:
            ModelError: the chat template refuses them.
        """
        known = len(self._entries)
        grown = known and len(entries) >= known and all(a is b for a, b in zip(entries, self._entries, strict=False))
        new = list(entries[known:]) if grown else list(entries)
        rows = self.rows
        if not grown or (new and isinstance(new[0], Message)):
            new = self._begin(entries)
        for said, answers in _exchanges(new):
            self._append(said, answers)
        self._entries = list(entries)
        if self._suspect and self._rewritten():
            self.rows = rows + 1
        return self._ids

    def _begin(self, entries: Sequence[Entry]) -> list[Entry]:
        opening: list[Message] = []
        for entry in entries:
            if not isinstance(entry, Message):
                break
            opening.append(entry)
        text, self._ids = self._rendering.first(tuple(opening))
        self._text = (text,)
        self._suspect = False
        self._opened_by_system = bool(opening) and opening[0].role == "system"
        self.rows += 1
        return list(entries[len(opening) :])

    def _append(self, said: Utterance, answers: tuple[Message, ...]) -> None:
        suffix = self._rendering.suffix(answers)
        closed = said.closed and not (self._rendering.template.ends_by_role and said.ids[-1] != suffix.end)
        self._ids = (*self._ids, *said.ids, *(suffix.closed if closed else suffix.open))
        self._text = (*self._text, said.text, suffix.text)
        if self._follow:
            self._suspect = self._suspect or not (
                self._rendering.appends(system=self._opened_by_system) and self._rendering.faithful(said.text)
            )

    def _rewritten(self) -> bool:
        """Render the conversation as the template would now; if the text differs, start another row."""
        try:
            today = self._rendering.text([e if isinstance(e, Message) else e.text for e in self._entries])
        except ModelError:  # Mistral's refuses two responses with calls as plain text: keep the response as it is
            return False
        if same_text(today, "".join(self._text)):
            return False
        self._ids, self._text = self._rendering.template.encode(today), (today,)
        return True


def _exchanges(entries: Sequence[Entry]) -> Iterator[tuple[Utterance, tuple[Message, ...]]]:
    """Yield each response with the messages that answered it; ``entries`` begins with a response."""
    said: Utterance | None = None
    answers: list[Message] = []
    for entry in entries:
        if isinstance(entry, Message):
            answers.append(entry)
            continue
        if said is not None:
            yield said, tuple(answers)
        said, answers = entry, []
    if said is not None:
        yield said, tuple(answers)
