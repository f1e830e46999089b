"""A session with a resources server of NeMo Gym: HTTP requests that share cookies."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

import httpx

from ...errors import (
    EnvironmentDiedError,
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    InfrastructureError,
    UsageError,
)
from ..remote.address import Address
from ..remote.problems import one_line

SECONDS = 300.0
"""Seconds for one request; a verification may wait for a judge."""
LONGEST = 500
"""Maximum characters of a server's reason in an error."""
BEGINS = ("/seed_session", "/reset")
"""Paths that read a row first, so that a refusal is the row's fault."""
REFUSED = (400, 409, 422)
"""Statuses by which a server refuses a row."""
LOST = re.compile(r"\b(no such|unknown|expired) session\b|\bno such episode here\b|\bsession (was )?not found\b", re.I)
"""Reason of a server that answers 404 because it no longer has the session; a tool has other words for its 404."""


class NemoSession:
    """One session; the server tells sessions apart by a cookie.

    Args:
        address: the server.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        base = str(address).replace("ws", "http", 1)
        auth = ("nemo", address.token)  # a server of Turnwise recognizes the protocol by the user
        self._client = httpx.AsyncClient(base_url=base, auth=auth, timeout=SECONDS, trust_env=False)
        self.ends_by = ""
        """Path by which the server lets a client end the present session; ``""`` if there is none."""

    async def renew(self) -> None:
        """End the session, and forget its cookies, so that the next request begins another one."""
        await self._end()
        self._client.cookies.clear()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Call a tool; return the text of its answer, and whether the server carried the call out.

        Raises:
            EnvironmentFailedError: the server failed, is too busy, or lost the session.
            EnvironmentDiedError: the connection broke.
        """
        path = f"/{name}"
        answer = await self._answer("POST", path, dict(arguments))
        status = answer.status_code
        if status in (408, 429) or (status == httpx.codes.NOT_FOUND and LOST.search(answer.text)):
            raise self._failed(path, answer)
        return answer.text, answer.is_success

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request of the protocol, and return its answer.

        Raises:
            UsageError: the server refuses the row with which a session begins.
            EnvironmentFailedError: it failed, refuses a later request, or the answer is not a JSON object.
            EnvironmentDiedError: the connection broke.
        """
        answer = await self._answer("POST", path, dict(body))
        if not answer.is_success:
            if path not in BEGINS or answer.status_code not in REFUSED:
                raise self._failed(path, answer)
            raise UsageError(f"{self._address}{path} refuses the row (HTTP {answer.status_code}): {_reason(answer)}")
        try:
            found = answer.json()
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise EnvironmentFailedError(f"{self._address}{path} did not answer with a JSON object")
        return found

    async def paths(self) -> set[str]:
        """Return the server's routes; none if it does not list them."""
        answer = await self._answer("GET", "/openapi.json")
        try:
            return set(answer.json()["paths"]) if answer.is_success else set()
        except (ValueError, RecursionError, KeyError, TypeError):
            return set()

    async def close(self) -> None:
        """End the session, and close the connections."""
        await self._end()
        await self._client.aclose()

    async def _end(self) -> None:
        """Free what the server keeps for the session, if it offers to."""
        path, self.ends_by = self.ends_by, ""
        if path:
            with contextlib.suppress(Exception):
                await self.post(path, {})

    async def _answer(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        try:
            content = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json"}
            answer = await self._client.request(method, path, content=content, headers=headers)
        except httpx.ConnectError as error:
            raise InfrastructureError(
                f"cannot reach {self._address}: {error}; is a resources server of NeMo Gym running there?"
            ) from None
        except httpx.TimeoutException:
            raise EnvironmentTimeoutError(f"{self._address}{path} did not answer within {SECONDS:g} s") from None
        except httpx.HTTPError as error:
            raise EnvironmentDiedError(f"{self._address}{path}: {error or type(error).__name__}") from None
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise UsageError(f"{self._address} refused the token; {self._address.token_hint}")
        if answer.is_server_error:
            raise self._failed(path, answer)
        return answer

    def _failed(self, path: str, answer: httpx.Response) -> EnvironmentFailedError:
        return EnvironmentFailedError(f"{self._address}{path} failed (HTTP {answer.status_code}): {_reason(answer)}")


def _reason(answer: httpx.Response) -> str:
    return one_line(answer.text)[:LONGEST]
