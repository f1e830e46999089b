"""Errors on the wire: an exception becomes a kind and one line, and the client raises its own from them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any

from websockets.exceptions import InvalidMessage

from ...errors import (
    ContractError,
    EnvironmentDiedError,
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    InfrastructureError,
    RequestError,
    TaskError,
    UnknownEnvironmentError,
    UsageError,
)
from .address import Address

KINDS: dict[str, type[Exception]] = {
    "task": TaskError,
    "unknown_environment": UnknownEnvironmentError,
    "usage": UsageError,
    "contract": ContractError,
    "timeout": EnvironmentTimeoutError,
    "died": EnvironmentDiedError,
    "failed": EnvironmentFailedError,
    "full": InfrastructureError,
    "version": UsageError,
    "forbidden": UsageError,
    "lost": EnvironmentDiedError,
    "draining": InfrastructureError,
    "bad_frame": EnvironmentFailedError,
}
"""Exceptions of the client by kind of error. For an exception, the first kind that fits is sent."""

REFUSING = ("reset", "describe", "instance")
"""Verbs whose usage errors every client reads: they say what is wrong with the client's own task."""
HIDDEN = {
    "timeout": "the environment did not answer in time",
    "died": "the environment's process died",
}
"""Text instead of a hidden one, by kind of error."""


def problem_of(error: BaseException, *, hidden: bool, verb: str = "") -> dict[str, str]:
    """Return an exception as the ``error`` of an answer.

    Args:
        error: the exception.
        hidden: whether to leave out what the environment itself raised, which may contain its secrets.
        verb: request that raised it.
    """
    if isinstance(error, RequestError):
        return {"kind": error.code, "message": one_line(str(error))}
    # The server's own refusals are RequestErrors, so no other infrastructure error means that the server is full.
    kinds = (kind for kind, type_ in KINDS.items() if type_ is not InfrastructureError and isinstance(error, type_))
    kind = next(kinds, "failed")
    refused = isinstance(error, UsageError) and verb not in REFUSING
    if hidden and (refused or isinstance(error, InfrastructureError | ContractError)):
        text = HIDDEN.get(kind, "the environment failed, or cannot do this")
        return {"kind": kind, "message": f"{text}; the server's log says why"}
    return {"kind": kind, "message": one_line(str(error)) or type(error).__name__}


def raised(problem: Mapping[str, Any], server: str) -> Exception:
    """Return the exception that the client raises for an ``error``."""
    kind, message = str(problem.get("kind")), str(problem.get("message"))
    return KINDS.get(kind, EnvironmentFailedError)(f"{server}: {message}")


def unreachable(address: Address, error: Exception) -> InfrastructureError:
    """Return the error of a client that gets no connection, in one line.

    Args:
        address: the server.
        error: exception of the socket, of TLS, or of the handshake.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate is not accepted ({error.verify_message})"
    elif isinstance(error, ssl.SSLError | InvalidMessage):  # mostly, only one side speaks TLS
        other = Address(address.host, address.port, tls=not address.tls)
        found, cure = ("no TLS", "without TLS") if address.tls else ("no HTTP", "if it speaks TLS")
        why = f"{found} there; {cure}, write {other} or {other.id_of('ID')}"
    else:
        code = getattr(error, "errno", None)
        known = os.strerror(code) if isinstance(code, int) and code > 0 else str(error) or type(error).__name__
        why = f"{known}; is `turnwise serve` running there?"
    return InfrastructureError(f"cannot reach {address}: {why}")


def one_line(text: str) -> str:
    """Return a text in one line of at most 2,000 characters."""
    return " ".join(text.split())[:2000]
