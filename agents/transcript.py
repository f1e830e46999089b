"""Token-exact transcripts: a conversation as ids that only ever grow at the end, or begin a new row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..envs.messages import Message
from .template import Rendering, same_text


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """Something the agent said, exactly; compared by identity, since the same words may be said twice.

    Args:
        ids: what was sampled, including a stop id.
        text: for parsers, people and templates.
        closed: a stop token was sampled; otherwise the template's closer belongs to the next prompt.
    """

    ids: tuple[int, ...]
    text: str
    closed: bool


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
        self._text: list[str] = []
        self._suspect = False
        self.rows = 0
        """How many rows have been begun; every one after the first is a fork."""

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
        if not grown or (new and isinstance(new[0], Message)):
            new = self._begin(entries)
        while new:
            said, new = new[0], new[1:]
            answers: list[Message] = []
            while new and isinstance(new[0], Message):
                answers.append(new.pop(0))  # type: ignore[arg-type]
            self._append(said, tuple(answers))  # type: ignore[arg-type]
        self._entries = list(entries)
        if self._suspect and self._follow:
            self._compare()
        return self._ids

    def _begin(self, entries: Sequence[Entry]) -> list[Entry]:
        opening: list[Message] = []
        for entry in entries:
            if not isinstance(entry, Message):
                break
            opening.append(entry)
        text, self._ids = self._rendering.first(tuple(opening))
        self._text = [text]
        self._suspect = False
        self._opened_by_system = bool(opening) and opening[0].role == "system"
        self.rows += 1
        return list(entries[len(opening) :])

    def _append(self, said: Utterance, answers: tuple[Message, ...]) -> None:
        suffix = self._rendering.suffix(answers)
        self._ids = (*self._ids, *said.ids, *(suffix.closed if said.closed else suffix.open))
        self._text += [said.text, suffix.text]
        if self._follow and not self._suspect:
            self._suspect = not (
                self._rendering.appends(system=self._opened_by_system) and self._rendering.faithful(said.text)
            )

    def _compare(self) -> None:
        """Write the conversation as the template would today; if that is another text, it is another row."""
        today = self._rendering.text([e if isinstance(e, Message) else e.text for e in self._entries])
        if not same_text(today, "".join(self._text)):
            self._ids, self._text = self._rendering.template.encode(today), [today]
            self.rows += 1
