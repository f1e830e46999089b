"""Token-exact transcripts: a conversation as ids that only ever grow at the end, or begin a new row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

from ..envs.messages import Message
from ..errors import ModelError
from .template import Rendering, same_text


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """Something the agent said, exactly; compared by identity, since the same words may be said twice.

    Args:
        ids: what was sampled, including a stop id.
        text: for parsers, people and templates.
        closed: a stop token was sampled; otherwise the template's closer belongs to the next prompt.
        unified: the text with ``<think>`` and ``</think>`` as delimiters of thoughts, whatever the model's own are and
            also where the prompt opened the thought; empty if that is not known.
    """

    ids: tuple[int, ...]
    text: str
    closed: bool
    unified: str = ""


Entry = Message | Utterance


class Transcript:
    """Turns a conversation into prompts, so that a prompt begins with the previous one and what was sampled on it.

    What was sampled enters as ids and is never encoded again; messages are encoded once, as they come. Where that
    law cannot hold (the context strategy drops something, or the chat template rewrites what was said, as Qwen3's
    drops thoughts), the next prompt starts a new row instead. Trainers see the boundary: that prompt is no extension.

    Args:
        rendering: the chat template, with the episode's tools.
        follow_template: start a new row where the template rewrites history; otherwise keep what was said.
    """

    def __init__(self, rendering: Rendering, *, follow_template: bool = True) -> None:
        self._rendering = rendering
        self._follow = follow_template
        self._entries: list[Entry] = []
        self._ids: tuple[int, ...] = ()
        self._text: tuple[str, ...] = ()
        self._suspect = False  # whether the template may have rewritten something, so that whole texts are compared
        self._opened_by_system = False
        self.rows = 0
        """How many rows have been begun; every one after the first is a fork."""

    def copy(self) -> Transcript:
        """An independent transcript in the same state."""
        return copy(self)

    def prompt(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """The ids that the agent reads before it speaks.

        Args:
            entries: the conversation that it is to see; objects seen before are recognised by identity.

        Raises:
            ModelError: the chat template refuses them.
        """
        known = len(self._entries)
        grown = known and len(entries) >= known and all(a is b for a, b in zip(entries, self._entries, strict=False))
        new = list(entries[known:]) if grown else list(entries)
        begun = self.rows
        if not grown or (new and isinstance(new[0], Message)):
            new = self._begin(entries)
        for said, answers in _exchanges(new):
            self._append(said, answers)
        self._entries = list(entries)
        if self._suspect and self._rewritten():
            self.rows = begun + 1
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
        """Write the conversation as the template would today; if that is another text, it is another row."""
        try:
            today = self._rendering.text([e if isinstance(e, Message) else e.text for e in self._entries])
        except ModelError:  # Mistral's refuses two calls in a row as plain words: what was said then stands as it is
            return False
        if same_text(today, "".join(self._text)):
            return False
        self._ids, self._text = self._rendering.template.encode(today), (today,)
        return True


def _exchanges(entries: Sequence[Entry]) -> Iterator[tuple[Utterance, tuple[Message, ...]]]:
    """What was said, each with the messages that answered it; ``entries`` begins with something said."""
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
