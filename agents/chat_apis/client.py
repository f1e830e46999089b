"""``ApiClient``: sends requests to a chat API with retries, within its rate limits and a spending cap."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import httpx

from ...errors import InfrastructureError, SpendingCapError, TurnwiseError, UsageError
from ...logs import event
from .cache import AnswerCache
from .conversation import Reply
from .costs import IMAGE_TOKENS, Price, Spending
from .dialect import BadAnswerError, Dialect, Request
from .faults import FaultError, RequestRefusedError, Server, content, refused
from .limits import Pace
from .settings import ApiSettings
from .transport import UnreachableError, http_client, post

LOG = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before a retry: doubled with each try, and drawn at random from the upper half."""
PREAMBLE = 1_000
"""More tokens than a provider adds to a prompt by itself, such as instructions for tools."""
BELIEVABLE = 10
"""Times the tokens that a request can have, up to which a server's counts are believed: some models think unasked."""
SHORTEST = 256
"""Smallest room for an answer in tokens; a conversation that leaves less does not fit into the context."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, and the cost of getting it.

    Args:
        reply: the model's reply.
        cost: cost in dollars; ``None`` if the price is unknown.
        seconds: duration of the request that succeeded.
        kept: whether it came from the cache.
        attempts: number of requests.
    """

    reply: Reply
    cost: Decimal | None
    seconds: float
    kept: bool = False
    attempts: int = 1


class ApiClient:
    """A client of one model behind a chat API, for any number of episodes at once.

    Args:
        server: server of the model.
        dialect: wire format of the server.
        settings: timeouts and bounds.
        cache: earlier answers.
        spending: the run's spending and its cap.
        price: price of the model, if known.
        connect: function that creates an HTTP client (default: ``http_client``).
        rng: random generator of waiting times.
    """

    def __init__(
        self,
        server: Server,
        dialect: Dialect,
        settings: ApiSettings,
        *,
        cache: AnswerCache,
        spending: Spending,
        price: Price | None,
        connect: Callable[[str], httpx.AsyncClient] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.server, self.settings, self.spending = server, settings, spending
        self.faults: Counter[str] = Counter()
        """Failed requests by kind."""
        self._first, self._dialect = dialect, dialect
        self._cache, self._price, self._connect = cache, price, connect or http_client
        self._rng = rng or random.Random()
        self._reached, self._answered = False, False
        self._failing_since: float | None = None
        self._hopeless: UsageError | None = None
        self._users = 0
        self._http: httpx.AsyncClient | None = None
        self._pace: Pace | None = None

    def open(self) -> None:
        """Count one more user. The first opens connections in its event loop."""
        self._users += 1

    async def close(self) -> None:
        """Count one user less. The last closes the connections."""
        self._users -= 1
        if self._users == 0:
            http, self._http, self._pace = self._http, None, None
            if http is not None:
                await http.aclose()

    async def ask(self, request: Request, episode: str) -> Answer:
        """Return the model's answer, from the cache if this episode has sent the same request before.

        Raises:
            InfrastructureError: the server kept failing.
            UsageError: the key, the model, the address or a setting is wrong, or the spending cap is reached.
            PolicyError: the conversation does not fit into the context, or the provider's filter refuses it.
        """
        key = AnswerCache.key(self.server.address, episode, encoded(self._first.body(request)))
        if kept := self._kept(key, request):
            return kept
        answer, raw = await self._insist(request)
        cost_text = None if answer.cost is None else str(answer.cost)
        self._cache.put(key, {"answer": raw, "cost": cost_text, "seconds": answer.seconds})
        return answer

    def _kept(self, key: str, request: Request) -> Answer | None:
        """Return the answer in the cache; ``None`` if there is none or its file is damaged."""
        kept = self._cache.get(key)
        if kept is None:
            return None
        try:
            reply = believed(self._dialect.read(kept["answer"], request.used), request, self._dialect)
            cost = None if kept["cost"] is None else Decimal(kept["cost"])
            return Answer(reply, cost, float(kept["seconds"]), kept=True)
        except (BadAnswerError, KeyError, ValueError, ArithmeticError):
            return None

    async def _insist(self, request: Request) -> tuple[Answer, Any]:
        """Send until there is an answer or patience ends."""
        loop = asyncio.get_running_loop()
        tried = 0.0  # seconds of requests and pauses, without those in which rate limits delay a request
        for attempt in itertools.count(1):
            dialect = self._dialect
            try:
                return await self._once(request, dialect, attempt)
            except RequestRefusedError as error:
                request = self._adjusted(request, dialect, error)
            except SpendingCapError:
                raise
            except UsageError as error:
                self._hopeless = error
                raise
            except FaultError as fault:
                self.faults[fault.kind] += 1
                if isinstance(fault, UnreachableError) and not self._reached:
                    self._hopeless = UsageError(f"{self.server.address} {fault}")
                    raise self._hopeless from None
                if self._failing_since is None:
                    self._failing_since = loop.time() - fault.seconds
                wait = self._wait(attempt, fault.after)
                tried += fault.seconds + wait
                if max(tried, loop.time() + wait - self._failing_since) > self.settings.patience:
                    asks = f"; it asks to wait {fault.after:,.0f} s" if fault.after else ""
                    raise InfrastructureError(f"{self.server.address} {fault} (try {attempt}){asks}") from None
                text = f"{self.server.address} {fault}; asking again in {wait:.1f} s"
                known = {"server": self.server.address, "fault": fault.kind, "attempt": attempt, "pause_seconds": wait}
                event(LOG, "retry", text, known)
                await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _once(self, request: Request, dialect: Dialect, attempt: int) -> tuple[Answer, Any]:
        """Send one request, within the rate limits and the cap."""
        if self._http is None or self._pace is None:
            self._http, self._pace = self._connect(self.server.address), Pace(self.settings.patience)
        http, pace = self._http, self._pace
        body = encoded(dialect.body(request))
        images, image_bytes = request.image_bytes
        prompt = len(body) - image_bytes
        async with pace.turn(prompt / 4 + images * 1_000):
            if self._hopeless is not None:  # another request has failed for good, e.g. because the key is wrong
                raise self._hopeless
            most = Decimal(0)
            if self._price is not None:
                most = self._price.at_most(prompt + PREAMBLE + images * IMAGE_TOKENS, request.max_tokens)
            await self.spending.reserve(most)
            charge, lost = most, True  # an interrupted request may be billed
            began = asyncio.get_running_loop().time()
            try:
                started = time.perf_counter()
                response = await post(
                    http,
                    f"{self.server.address}{dialect.path}",
                    body,
                    dialect.headers(self.server.key),
                    timeout=self.settings.timeout,
                    max_bytes=self.settings.max_bytes,
                )
                seconds, self._reached = time.perf_counter() - started, True
                pace.learn(response.headers)
                raw = content(response, self.server, answered=self._answered)
                reply = believed(_read(dialect, raw, request, self.server), request, dialect)
                pace.answered()
                self._answered, self._failing_since = True, None
                cost = None if self._price is None else self._price.of(reply.usage) if reply.usage else most
                charge, lost = cost or Decimal(0), False
                return Answer(reply, cost, seconds, attempts=attempt), raw
            except FaultError as fault:
                fault.seconds = asyncio.get_running_loop().time() - began
                if not fault.lost:
                    charge, lost = Decimal(0), False
                if fault.busy:
                    pace.refused(fault.after)
                raise
            except (RequestRefusedError, TurnwiseError):
                charge, lost = Decimal(0), False
                raise
            finally:
                self.spending.settle(most, charge, lost=lost)

    def _adjusted(self, request: Request, dialect: Dialect, error: RequestRefusedError) -> Request:
        """Adjust the dialect or the request to what the server accepts.

        Args:
            request: the refused request.
            dialect: its format; others may have been refused in it at the same time.
            error: the refusal.

        Raises:
            UsageError: the server refuses it, and has not accepted any request of this run.
            InfrastructureError: the server refuses it.
            PolicyError: the conversation does not fit into the context.
        """
        variant = dialect.adapted(str(error))
        if variant is not None:
            self._dialect = variant
            return request
        shortest = request.max_tokens <= SHORTEST
        found = refused(error, self.server, answered=self._answered, shortest=shortest)
        if shortest or not error.too_long:
            self._hopeless = found if isinstance(found, UsageError) else None
            raise found from None
        return request.shorter()

    def _wait(self, attempt: int, after: float | None) -> float:
        backoff = min(FIRST_WAIT * 2.0 ** min(attempt - 1, 16), LONGEST_WAIT) * self._rng.uniform(0.5, 1.0)
        return backoff if after is None else after * self._rng.uniform(1.0, 1.1) + backoff / 4


def encoded(body: dict[str, Any]) -> bytes:
    """Encode a body; half a surrogate pair, which UTF-8 cannot represent, becomes a question mark."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def believed(reply: Reply, request: Request, dialect: Dialect) -> Reply:
    """Return a reply without the server's count of tokens if no such request has so many.

    Otherwise one absurd count would use up the spending cap, and end the run.
    """
    usage, (images, image_bytes) = reply.usage, request.image_bytes
    if usage is None:
        return reply
    read = len(encoded(dialect.body(request))) - image_bytes + PREAMBLE + images * IMAGE_TOKENS
    fits = usage.prompt + usage.cached + usage.cache_writes <= BELIEVABLE * read
    if fits and usage.completion + usage.reasoning <= BELIEVABLE * (request.max_tokens + PREAMBLE):
        return reply
    return replace(reply, usage=None)


def _read(dialect: Dialect, raw: Any, request: Request, server: Server) -> Reply:
    """Read an answer. An unforeseen shape is the server's fault, too, and not a defect of the agent."""
    try:
        return dialect.read(raw, request.used)
    except (BadAnswerError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        shown = server.shown(f"{error}" if isinstance(error, BadAnswerError) else f"{type(error).__name__}: {error}")
        raise FaultError(f"sent an unreadable answer: {shown}", "bad answer", lost=True) from None
