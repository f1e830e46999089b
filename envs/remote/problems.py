"""Errors on the wire: an exception becomes a kind and one line, and the client raises its own from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def one_line(text: str) -> str:
    """Return a text in one line of at most 2,000 characters."""
    return " ".join(text.split())[:2000]
