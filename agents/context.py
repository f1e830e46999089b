"""Context strategies: how much of an episode the agent reads before each action."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..envs.messages import Message, Observation, TextPart, message
from ..errors import UsageError
from .tags import inside, without
from .thoughts import OPEN, without_thoughts
from .transcript import Entry, Utterance


@dataclass(frozen=True, slots=True)
class Round:
    """One observation, and what the agent said to it (``None`` while it is deciding)."""

    observation: Observation
    said: Utterance | None = None


class ContextStrategy(Protocol):
    """Chooses what the agent reads. It holds no state: one strategy serves any number of episodes.

    A view that does not extend the previous one begins a new row of tokens; old rows are never rewritten.
    """

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """The conversation to show before the next action; the last round is the one to be decided."""
        ...

    def spoken(self, text: str) -> str:
        """What of a completion is meant for the environment."""
        ...


class FullHistory:
    """Everything, always: one row for the whole episode."""

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """All messages and all that was said."""
        return _entries(rounds)

    def spoken(self, text: str) -> str:
        """All of it."""
        return text


class LastTurns:
    """The last ``k`` observations, and what was said between them.

    Args:
        k: 1 shows the present observation alone.
        keep_system: system messages that open the episode stay in view; otherwise none is ever shown.

    Raises:
        UsageError: ``k`` is less than 1.
    """

    def __init__(self, k: int, *, keep_system: bool = True) -> None:
        if k < 1:
            raise UsageError(f"a context of the last {k} turns is empty; use last:1 or more")
        self.k, self.keep_system = k, keep_system

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """The window, after the opening system messages or without any."""
        window = _entries(rounds[-self.k :])
        if not self.keep_system:
            return [entry for entry in window if getattr(entry, "role", None) != "system"] or window
        if len(rounds) <= self.k:
            return window
        return [*(m for m in rounds[0].observation.messages if m.role == "system"), *window]

    def spoken(self, text: str) -> str:
        """All of it."""
        return text


class ShortPast:
    """All that was said, and of every observation but the last ``k`` only its beginning.

    For long observations that are worth nothing once they are past, such as pages of the web (WebAgent-R1, 2505.16421,
    puts a placeholder in their place). There the actions were trained as if they had been sampled under the
    placeholders; here a view in which something was shortened begins a new row, so that every action is trained under
    what it was sampled from.

    Args:
        k: how many observations are shown whole.
        letters: that are kept of older ones; those of the first observation hold the task.

    Raises:
        UsageError: one of them is less than 1.
    """

    def __init__(self, k: int, letters: int) -> None:
        if k < 1 or letters < 1:
            raise UsageError(f"the context short:{k}:{letters} is empty; use short:1:200 or more")
        self.k, self.letters = k, letters

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """The conversation with its older observations cut."""
        past = [
            Round(Observation(tuple(self._cut(one) for one in round_.observation.messages)), round_.said)
            for round_ in rounds[: -self.k]
        ]
        return _entries([*past, *rounds[-self.k :]])

    def _cut(self, one: Message) -> Message:
        """The beginning of a message, without its pictures; system messages are rules, and stay."""
        if one.role == "system" or (len(one.text) <= self.letters and len(one.parts) < 2):
            return one
        text = one.text if len(one.text) <= self.letters else f"{one.text[: self.letters].rstrip()} …"
        return replace(one, parts=(TextPart(text),))

    def spoken(self, text: str) -> str:
        """All of it."""
        return text


class MarkovianSummary:
    """The task, a summary that the agent keeps rewriting, and the last action with its result.

    The workspace is rebuilt every round (IterResearch, 2511.07327; The Markovian Thinker, 2510.06557), so a prompt
    stays short however long the episode, and each round is a row of its own. The agent writes its summary in
    ``<summary>…</summary>`` anywhere in what it says; a round without one keeps the summary before it.

    What it thinks (``<think>…</think>``) is of its round, and is not carried into the next.

    Args:
        instruction: appended to the task, to tell the agent of the rule; may be empty.
        letters: of the summary and of the last action that are carried on, each; without a limit, a prompt grows as the
            agent's summaries do.

    Raises:
        UsageError: ``letters`` is less than 1.
    """

    INSTRUCTION = (
        "Before each action, write all you need to remember between <summary> and </summary>: "
        "next time you will see only the task, this summary, and your last action with its result."
    )

    def __init__(self, instruction: str = INSTRUCTION, *, letters: int | None = None) -> None:
        if letters is not None and letters < 1:
            raise UsageError(f"a summary of {letters} characters is too short; use summary:2000 or so")
        limit = f" Of the summary, {letters} letters are kept." if instruction and letters is not None else ""
        self.instruction, self.letters = f"{instruction}{limit}", letters

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """Task and summary, last action, its result."""
        opening = rounds[0].observation.messages
        if len(rounds) == 1:
            return [*_extended(opening, self.instruction)]
        summary = next((s for r in reversed(rounds[:-1]) if r.said and (s := _summary(r.said.text)) is not None), None)
        slot = f"<summary>{self._kept(summary)}</summary>" if summary is not None else ""
        last = rounds[-2].said
        said = self._kept(_without_thoughts(self.spoken(last.unified or last.text))) if last else ""
        task = _extended(opening, "\n".join(filter(None, (self.instruction, slot))))
        return [*task, Message("assistant", (TextPart(said),)), *rounds[-1].observation.messages]

    def _kept(self, text: str) -> str:
        return text if self.letters is None or len(text) <= self.letters else f"{text[: self.letters].rstrip()} …"

    def spoken(self, text: str) -> str:
        """What is not summary."""
        return without(text, "summary").strip()


def context_strategy(name: str | ContextStrategy) -> ContextStrategy:
    """The strategy called ``name`` in a configuration; a strategy is passed through.

    "full", "last:K" (the opening system messages, then the last K turns), "last:K:bare" (without system messages:
    for a small model whose rules never change), "short:K:N" (N letters of every observation but the last K), "summary"
    or "summary:N" (which carries at most N letters of the summary).

    Raises:
        UsageError: there is no such strategy.
    """
    if not isinstance(name, str):
        return name
    last = re.fullmatch(r"last:([0-9]{1,6})(:bare)?", name)
    if name == "full":
        return FullHistory()
    if name == "summary":
        return MarkovianSummary()
    if (carried := re.fullmatch(r"summary:([0-9]{1,6})", name)) is not None:
        return MarkovianSummary(letters=int(carried[1]))
    if (short := re.fullmatch(r"short:([0-9]{1,6}):([0-9]{1,6})", name)) is not None:
        return ShortPast(int(short[1]), int(short[2]))
    if last is not None:
        return LastTurns(int(last[1]), keep_system=last[2] is None)
    raise UsageError(
        f"context strategy {name!r} is unknown; choose full, last:K (such as last:1), last:K:bare, "
        "short:K:N (such as short:1:200), summary or summary:N (such as summary:2000)"
    )


def _entries(rounds: Sequence[Round]) -> list[Entry]:
    entries: list[Entry] = []
    for round_ in rounds:
        entries.extend(round_.observation.messages)
        if round_.said is not None:
            entries.append(round_.said)
    return entries


def _extended(opening: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """The opening messages with text added to the last of them: some templates allow no second user message."""
    if not text:
        return opening
    if not opening:
        return (message("user", text),)
    return (*opening[:-1], opening[-1].with_text(f"{opening[-1].text}\n{text}"))


def _without_thoughts(text: str) -> str:
    """The text without its thoughts; one that was never closed reaches to the end."""
    rest, unfinished = without_thoughts(text)
    return (rest.partition(OPEN)[0] if unfinished else rest).strip()


def _summary(text: str) -> str | None:
    found = inside(text, "summary")
    return found[-1].strip() if found else None
