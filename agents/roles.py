"""Conversations for chat templates that lack a role: the user says what nobody else can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..envs.messages import Message, Part, TextPart, message


def system_by_user(messages: Sequence[Message | str]) -> list[Message | str]:
    """The conversation with system messages in front of what the user says next."""
    found: list[Message | str] = []
    opening: tuple[Part, ...] = ()
    for one in messages:
        if isinstance(one, Message) and one.role == "system":
            opening = (*opening, *one.parts, TextPart("\n\n"))
        elif isinstance(one, Message) and one.role == "user":
            found.append(replace(one, parts=(*opening, *one.parts)))
            opening = ()
        else:
            found.append(one)
    return [*found, Message("user", opening[:-1])] if opening else found


def results_by_user(messages: Sequence[Message | str]) -> list[Message | str]:
    """The conversation with results of tools in the user's mouth; roles alternate, as such templates want it."""
    found: list[Message | str] = []
    for one in messages:
        if isinstance(one, Message) and one.role == "tool":
            one = message("user", f"<tool_response>\n{one.text}\n</tool_response>")
            last = found[-1] if found else ""
            if isinstance(last, Message) and last.role == "user":
                one = found.pop() and last.with_text(f"{last.text}\n{one.text}")
        found.append(one)
    return found
