"""Text of ours in a conversation: what is not the environment's, and may therefore hold control tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..envs.messages import Message, Observation, TextPart


@dataclass(frozen=True, slots=True)
class OwnText(TextPart):
    """Text of ours in a message, whose control tokens count: how to write a tool call, say."""


def with_system(observation: Observation, system: str) -> Observation:
    """Return an observation whose system message is extended by text of ours, or that begins with one."""
    messages = observation.messages
    if messages and messages[0].role == "system":
        opening = replace(messages[0], parts=(*messages[0].parts, OwnText(f"\n\n{system}")))
        return Observation((opening, *messages[1:]))
    return Observation((Message("system", (OwnText(system),)), *messages))
