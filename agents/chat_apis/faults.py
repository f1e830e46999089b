"""Interpret a server's answer: content, a fault to retry, or an error that ends the episode or the run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from ...errors import InfrastructureError, PolicyError, PromptTooLongError, UsageError
from ...inference.bounded_json import loads
from ...inference.serving.answers import reason

BUSY = frozenset((408, 429, 503, 529))
"""Statuses that ask for fewer requests at once."""
RETRIED = frozenset((404, 408, 409, 425, 429))
"""Statuses below 500 that may pass: a 404 without a word on the model comes from a proxy."""
TOO_LONG = re.compile(
    r"context.{0,9}length|context.window|maximum.context|prompt is too long|too many tokens|exceeds? the (available )?"
    r"context|context limit|input.{0,20}too long|input token count",
    re.IGNORECASE,
)
FILTERED = re.compile(
    r"content_filter|content_policy|invalid_prompt|ResponsibleAI|moderation|was flagged", re.IGNORECASE
)
NO_CREDIT = re.compile(
    r"insufficient_quota|billing_not_active|credit balance is too low|insufficient (credits|funds|balance)",
    re.IGNORECASE,
)
"""Words of an empty account. A plain rate limit may mention billing and quotas too, so these are narrow."""


class FaultError(Exception):
    """The server failed or refused for now; the request is sent again.

    Args:
        message: description of the fault.
        kind: word to count it by, such as ``429`` or ``timeout``.
        after: seconds that the server asks to wait.
        busy: whether fewer requests at once may help.
        lost: whether an answer may have been written and billed, but did not arrive completely.
    """

    def __init__(
        self, message: str, kind: str, *, after: float | None = None, busy: bool = False, lost: bool = False
    ) -> None:
        super().__init__(message)
        self.kind, self.after, self.busy, self.lost = kind, after, busy, lost
        self.seconds = 0.0
        """Duration of the request."""


class RequestRefusedError(Exception):
    """The server refuses this very request (400, 405, 413, 422, …); the message is its own."""

    @property
    def too_long(self) -> bool:
        """Whether conversation and answer together do not fit into the model's context."""
        return TOO_LONG.search(str(self)) is not None


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP response, read to its end."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Server:
    """Address, model and key of a server.

    Args:
        address: the base URL.
        model: the model's name.
        key: API key sent with each request; never shown.
        variable: the environment variable that the key comes from.
    """

    address: str
    model: str
    key: str | None = field(repr=False)
    variable: str

    def shown(self, said: str) -> str:
        """Return a server's message without the key, in case it repeats it."""
        return said.replace(self.key, "…") if self.key else said


def content(response: Response, server: Server, *, answered: bool) -> Any:
    """Return the JSON of a good answer.

    Args:
        response: the HTTP response.
        server: server that sent it.
        answered: whether the server has answered a request of this run before. Until then, a refusal says that the
            address, the model or a setting is wrong, and ends the run.

    Raises:
        FaultError: another try may succeed.
        RequestRefusedError: the request itself is refused.
        UsageError: the key, the address or the model is wrong, or no credit is left.
        PolicyError: the provider's content filter refuses the conversation.
    """
    status = response.status
    if 200 <= status < 300:
        try:
            found = loads(response.content)
        except (ValueError, UnicodeDecodeError) as error:
            raise FaultError(f"its answer is not JSON ({error})", "bad JSON", lost=True) from None
        if isinstance(found, dict) and found.get("error") and not any(k in found for k in ("choices", "output")):
            raise FaultError(f"answered with an error: {server.shown(reason(found))}", "error in answer")
        return found
    said = server.shown(_said(response))
    if 400 <= status < 500 and status not in RETRIED and FILTERED.search(said):
        raise PolicyError(f"the provider's content filter refused the conversation ({status}): {said}")
    if status == 413 and answered:
        raise PromptTooLongError(f"the conversation is too large for {server.address} ({status}): {said}")
    if status in (401, 403):
        held = f"the key in {server.variable}" if server.key else f"a request without a key; set {server.variable}"
        raise UsageError(f"{server.address} refuses {held} ({status}): {said}")
    if status == 402 or (status in (400, 429) and NO_CREDIT.search(said)):
        raise UsageError(f"{server.address} has no credit left for this key ({status}): {said}")
    if status == 404 and (not answered or "model" in said.lower()):
        raise UsageError(f"{server.address} does not have model {server.model!r}, or the URL is wrong (404): {said}")
    if 300 <= status < 400:
        there = response.headers.get("location", "another address")
        raise UsageError(f"{server.address} redirects to {there} ({status}); name the final URL")
    if status < 500 and status not in RETRIED:
        raise RequestRefusedError(f"({status}): {said}")
    raise FaultError(
        f"failed ({status}): {said}", str(status), after=retry_after(response.headers), busy=status in BUSY
    )


def refused(error: RequestRefusedError, server: Server, *, answered: bool, shortest: bool) -> Exception:
    """Return the error that a refused request stands for.

    Args:
        error: the refusal.
        server: server that refused.
        answered: whether the server has answered a request of this run before.
        shortest: whether the request asked for hardly any room for an answer.
    """
    if error.too_long and shortest:
        return PromptTooLongError(f"the conversation does not fit into {server.model}'s context {error}")
    if answered:
        return InfrastructureError(f"{server.address} refuses a request {error}")
    hint = " (api.tools=text describes tools in text)" if "tool" in str(error).lower() else ""
    return UsageError(f"{server.address} refuses the first request {error}{hint}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` asks to wait; a date counts from the response's own ``Date``."""
    millis, given = headers.get("retry-after-ms", ""), headers.get("retry-after", "").strip()
    for value, unit in ((millis, 1000.0), (given, 1.0)):
        try:
            return max(0.0, min(float(value) / unit, 1e6))
        except ValueError:
            continue
    try:
        return max(0.0, (parsedate_to_datetime(given) - parsedate_to_datetime(headers["date"])).total_seconds())
    except (ValueError, TypeError, KeyError, OverflowError):
        return None


def _said(response: Response) -> str:
    """Return the message and the code in the body of an error, in one line."""
    try:
        found = loads(response.content)
    except (ValueError, UnicodeDecodeError):
        found = response.content[:300].decode("utf-8", "replace")
    inner = found.get("error") if isinstance(found, dict) else None
    code = inner.get("code") or inner.get("type") if isinstance(inner, dict) else None
    words = reason(found)
    return f"{words} [{code}]" if isinstance(code, str) and code not in words else words
