"""Tokens of a server's clients, and the operator's key."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import UsageError

SHORTEST = 16
"""Minimum length of a token, in characters, so that it cannot be guessed."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client.

    Args:
        name: digest of its token, by which its episodes are known.
        operator: whether it may ask the oracle and read what an environment raised.
    """

    name: str
    operator: bool


class Access:
    """Decides in constant time by ``Authorization: Bearer``, by ``X-API-Key``, or by the password of a URL.

    Args:
        tokens: tokens of clients; none lets every client in.
        operator: the operator's key; without one, there is no operator.

    Raises:
        UsageError: a token or key is too short, or both are the same.
    """

    def __init__(self, tokens: Sequence[str] = (), operator: str | None = None) -> None:
        for each in (*tokens, *((operator,) if operator is not None else ())):
            if len(each) < SHORTEST:
                raise UsageError(
                    f"a token of {len(each)} characters can be guessed; use at least {SHORTEST}, or omit it for a "
                    "random one"
                )
        if operator in tokens:
            raise UsageError("the operator's key must differ from the clients' tokens")
        self._tokens, self._operator = tuple(tokens), operator

    @property
    def clients(self) -> int:
        """Number of clients that it tells apart, beside the operator."""
        return max(1, len(self._tokens))

    def client(self, headers: Mapping[str, str]) -> Client | None:
        """Return the client who sent these headers, or ``None`` for an unknown one."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            token = headers.get("x-api-key", "") or (credentials(headers) or ("", ""))[1]
        token = token.strip()
        if self._operator is not None and _same(token, self._operator):
            return Client(_named(token), operator=True)
        if not self._tokens:
            return Client("anybody", operator=False)
        known = [_same(token, each) for each in self._tokens]
        return Client(_named(token), operator=False) if any(known) else None


def credentials(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password of HTTP's basic authentication, which clients take from a URL, or ``None``."""
    scheme, _, encoded = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:  # not base64, or not text
        return None
    return user, password


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def _named(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
