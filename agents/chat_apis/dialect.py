"""The interface of a provider's wire format: a request to write, a reply to read."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from ...envs.tools import Tool
from ...inference.bounded_json import loads
from .conversation import Call, Exchange, Reply


class BadAnswerError(Exception):
    """The server's answer is not what its API promises. The request is sent again."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the model, before any provider's format.

    Args:
        model: the model's name.
        exchanges: the whole conversation.
        tools: tools that the model may call.
        max_tokens: length of the longest answer, in tokens.
        temperature: sampling temperature; ``None`` leaves it to the provider.
        extra: further fields of the body.
        used: ids of earlier tool calls, which must not be used again.
    """

    model: str
    exchanges: Sequence[Exchange]
    tools: Sequence[Tool] = ()
    max_tokens: int = 1024
    temperature: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    used: Collection[str] = ()

    def shorter(self) -> Self:
        """Return the same request with half the room for an answer."""
        return replace(self, max_tokens=self.max_tokens // 2)

    @property
    def image_bytes(self) -> tuple[int, int]:
        """Number of images in the conversation, and their size in bytes of base64."""
        sizes = [4 * ((len(part.data) + 2) // 3) for exchange in self.exchanges for part in exchange.images]
        return len(sizes), sum(sizes)


class Dialect(Protocol):
    """One provider's wire format."""

    @property
    def path(self) -> str:
        """The path of requests below the base URL."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers with the key."""
        ...

    def body(self, request: Request) -> dict[str, Any]:
        """Return the request as JSON."""
        ...

    def read(self, content: Any, used: Collection[str]) -> Reply:
        """Return the reply in a server's JSON.

        Raises:
            BadAnswerError: it is not what the API promises.
        """
        ...

    def adapted(self, refusal: str) -> Dialect | None:
        """Return the variant of this dialect that a server asks for in a refusal; ``None`` if there is none."""
        ...


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Return ``value``, which must be a JSON object.

    Raises:
        BadAnswerError: it is something else.
    """
    if not isinstance(value, dict):
        raise BadAnswerError(f"{what} is {type(value).__name__}, not an object")
    return value


def sequence(value: Any, what: str) -> Sequence[Any]:
    """Return ``value``, which must be a JSON array; ``None`` counts as an empty one.

    Raises:
        BadAnswerError: it is something else.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadAnswerError(f"{what} is {type(value).__name__}, not an array")
    return value


def text(value: Any, what: str) -> str:
    """Return ``value``, which must be text; ``None`` counts as empty.

    Raises:
        BadAnswerError: it is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadAnswerError(f"{what} is {type(value).__name__}, not text")
    return value


def count(value: Any) -> int:
    """Return a number of tokens; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def unique_id(given: Any, used: Collection[str], calls: Sequence[Call]) -> str:
    """Return a tool call's own id, or a new one if the server gave none or gave one twice."""
    taken = {*used, *(call.id for call in calls)}
    if isinstance(given, str) and given and given not in taken:
        return given
    number = len(taken) + 1
    while f"call_{number}" in taken:
        number += 1
    return f"call_{number}"


def json_object(arguments: str) -> str:
    """Return arguments to send back: servers parse them, so anything but an object becomes an empty one."""
    try:
        return arguments if isinstance(loads(arguments, largest=math.inf), dict) else "{}"
    except ValueError:
        return "{}"


def without_last(said: Sequence[Mapping[str, Any]], kinds: Collection[str]) -> tuple[Mapping[str, Any], ...]:
    """Drop reasoning at the end of a reply; APIs refuse it without text or a tool call after it."""
    last = next((number for number in range(len(said), 0, -1) if said[number - 1].get("type") not in kinds), 0)
    return tuple(said[:last])
