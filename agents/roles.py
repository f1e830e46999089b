"""Conversations for chat templates that lack a role: user messages replace the missing ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..envs.messages import Message, Part, TextPart


def said_by_user(messages: Sequence[Message | str], lacking: Collection[str]) -> list[Message | str]:
    """Turn messages of roles that a template lacks into user messages, so that users and agent still alternate.

    Args:
        messages: the conversation; strings are the agent's responses.
        lacking: ``"system"``, ``"tool"`` or both.
    """
    found: list[Message | str] = []
    joins = False
    for one in messages:
        moved = isinstance(one, Message) and one.role in lacking
        if isinstance(one, Message) and moved:
            one = Message("user", _result(one.parts) if one.role == "tool" else one.parts)
        last = found[-1] if found and (moved or joins) else None
        if isinstance(one, Message) and isinstance(last, Message) and one.role == last.role == "user":
            found[-1] = replace(last, parts=(*last.parts, TextPart("\n\n"), *one.parts))
        else:
            found.append(one)
        joins = moved
    return found


def _result(parts: Sequence[Part]) -> tuple[Part, ...]:
    return (TextPart("<tool_response>\n"), *parts, TextPart("\n</tool_response>"))
