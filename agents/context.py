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
    """One observation, and the agent's response (``None`` while it is deciding)."""

    observation: Observation
    said: Utterance | None = None


class ContextStrategy(Protocol):
    """Chooses the messages that the agent reads. It is stateless: one strategy serves any number of episodes.

    A view that does not extend the previous one starts a new row of tokens; old rows are never rewritten.
    """

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """Return the conversation to show before the next action; the last round is the undecided one."""
        ...

    def spoken(self, text: str) -> str:
        """Return the part of a completion that is meant for the environment."""
        ...


class FullHistory:
    """Everything, always: one row for the whole episode."""

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """Return all messages and all responses."""
        return _entries(rounds)

    def spoken(self, text: str) -> str:
        """Return the whole text."""
        return text


class LastTurns:
    """The last ``k`` observations, and the responses between them.

    Args:
        k: 1 shows the present observation alone.
        keep_system: whether system messages at the start of the episode stay in view; otherwise none is ever shown.

    Raises:
        UsageError: ``k`` is less than 1.
    """

    def __init__(self, k: int, *, keep_system: bool = True) -> None:
        if k < 1:
            raise UsageError(f"a context of the last {k} turns is empty; use last:1 or more")
        self.k, self.keep_system = k, keep_system

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """Return the window, after the first system messages or without any."""
        window = _entries(rounds[-self.k :])
        if not self.keep_system:
            return [entry for entry in window if getattr(entry, "role", None) != "system"] or window
        if len(rounds) <= self.k:
            return window
        return [*(m for m in rounds[0].observation.messages if m.role == "system"), *window]

    def spoken(self, text: str) -> str:
        """Return the whole text."""
        return text


class ShortPast:
    """All responses and the last ``k`` observations, but only the beginning of every older observation.

    This is for long observations that are of little use later, such as web pages. WebAgent-R1 (2505.16421) puts a
    placeholder in their place, and trains earlier actions as if they had been sampled under the placeholders. Here a
    view with a shortened message starts a new row, so that every action is trained under its own context.

    Args:
        k: number of observations shown in full.
        characters: number of characters kept of older ones; the first observation's contain the task.

    Raises:
        UsageError: one of them is less than 1.
    """

    def __init__(self, k: int, characters: int) -> None:
        if k < 1 or characters < 1:
            raise UsageError(f"the context short:{k}:{characters} is empty; use short:1:200 or more")
        self.k, self.characters = k, characters

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """Return the conversation with its older observations cut."""
        past = [
            Round(Observation(tuple(self._cut(one) for one in round_.observation.messages)), round_.said)
            for round_ in rounds[: -self.k]
        ]
        return _entries([*past, *rounds[-self.k :]])

    def _cut(self, one: Message) -> Message:
        """Return the beginning of a message without its images; system messages are rules, and stay."""
        if one.role == "system" or (len(one.text) <= self.characters and len(one.parts) < 2):
            return one
        text = one.text if len(one.text) <= self.characters else f"{one.text[: self.characters].rstrip()} …"
        return replace(one, parts=(TextPart(text),))

    def spoken(self, text: str) -> str:
        """Return the whole text."""
        return text


class MarkovianSummary:
    """The task, a summary that the agent keeps rewriting, and the last action with its result.

    The workspace is rebuilt every round (IterResearch, 2511.07327; The Markovian Thinker, 2510.06557). So a prompt
    stays short in episodes of any length, and each round is a row of its own. The agent writes its summary in
    ``<summary>…</summary>`` anywhere in its response; a round without one keeps the previous summary.

    Its thoughts (``<think>…</think>``) belong to their round, and are not carried into the next.

    Args:
        instruction: text appended to the task, which explains the rule to the agent; may be empty.
        characters: number of characters of the summary and of the last action that are carried on, each. Without a
            limit, a prompt grows with the agent's summaries.

    Raises:
        UsageError: ``characters`` is less than 1.
    """

    INSTRUCTION = (
        "Before each action, write all you need to remember between <summary> and </summary>: "
        "next time you will see only the task, this summary, and your last action with its result."
    )

    def __init__(self, instruction: str = INSTRUCTION, *, characters: int | None = None) -> None:
        if characters is not None and characters < 1:
            raise UsageError(f"a summary of {characters} characters is too short; use summary:2000 or so")
        limit = f" Of the summary, {characters} characters are kept." if instruction and characters is not None else ""
        self.instruction, self.characters = f"{instruction}{limit}", characters

    def view(self, rounds: Sequence[Round]) -> list[Entry]:
        """Return the task and the summary, the last action, and its result."""
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
        most = self.characters
        return text if most is None or len(text) <= most else f"{text[:most].rstrip()} …"

    def spoken(self, text: str) -> str:
        """Return the text without the summary."""
        return without(text, "summary").strip()


def context_strategy(name: str | ContextStrategy) -> ContextStrategy:
    """Return the strategy called ``name`` in a configuration; a strategy is passed through.

    Names are "full", "summary" and these. "last:K" has the first system messages, then the last K turns. "last:K:bare"
    has no system messages, for a small model whose rules never change. "short:K:N" keeps N characters of every
    observation but the last K. "summary:N" carries at most N characters of the summary.

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
        return MarkovianSummary(characters=int(carried[1]))
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
    """Return the first messages with text added to the last of them: some templates allow no second user message."""
    if not text:
        return opening
    if not opening:
        return (message("user", text),)
    return (*opening[:-1], opening[-1].with_text(f"{opening[-1].text}\n{text}"))


def _without_thoughts(text: str) -> str:
    """Return the text without its thoughts; one that was never closed reaches to the end."""
    rest, unfinished = without_thoughts(text)
    return (rest.partition(OPEN)[0] if unfinished else rest).strip()


def _summary(text: str) -> str | None:
    found = inside(text, "summary")
    return found[-1].strip() if found else None
