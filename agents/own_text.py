"""Trusted text in a conversation: it is not the environment's, and may therefore contain control tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ..envs.messages import Message, Observation, Part, TextPart


@dataclass(frozen=True, slots=True)
class OwnText(TextPart):
    """Trusted text in a message, whose control tokens count, such as how to write a tool call."""


def with_system(observation: Observation, system: str) -> Observation:
    """Return an observation whose system message is extended by trusted text, or that begins with one."""
    messages = observation.messages
    if messages and messages[0].role == "system":
        opening = replace(messages[0], parts=(*messages[0].parts, OwnText(f"\n\n{system}")))
        return Observation((opening, *messages[1:]))
    return Observation((Message("system", (OwnText(system),)), *messages))


def written(parts: Iterable[Part], clean: Callable[[str], str]) -> str:
    """Join texts, all but trusted ones cleaned; a control token that is split over several parts counts as one.

    Args:
        parts: parts of a message; images are left out.
        clean: function that makes control tokens harmless.
    """
    texts = (part for part in parts if isinstance(part, TextPart))
    runs = groupby(texts, key=lambda part: isinstance(part, OwnText))
    joined = ((own, "".join(part.text for part in run)) for own, run in runs)
    return "".join(text if own else clean(text) for own, text in joined)


def cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """Return a JSON value whose strings, names included, are cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key, clean): cleaned(one, clean) for key, one in value.items()}
    return [cleaned(one, clean) for one in value] if isinstance(value, list | tuple) else value
