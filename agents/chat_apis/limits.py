"""Rate limits of a server, learned from its headers and its refusals."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from .faults import FaultError

FIRST = 8
"""Requests at once before anything is known about the server."""
CUT_PAUSE = 1.0
"""Seconds within which several refusals count as one, since they were sent together."""
KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(slots=True)
class Budget:
    """A limit on requests or tokens that refills steadily.

    Args:
        limit: the largest amount.
        left: amount at ``time``, less what was taken since.
        rate: amount that refills per second.
        time: time of the event loop.
    """

    limit: float
    left: float
    rate: float
    time: float

    def wait(self, need: float, now: float) -> float:
        """Return the seconds until there is enough; a need above the limit waits until it is full."""
        lacking = min(need, self.limit) - self.left
        return max(0.0, self.time + lacking / self.rate - now) if lacking > 0 else 0.0


class Pace:
    """Lets requests through, first come, first served, as fast as the server allows.

    The number of requests at once grows by one with each answer until the first refusal, is halved by a refusal, and
    then grows by one per round. Rate limits in its headers delay a request before the server refuses it. A
    pace belongs to one event loop.

    Args:
        longest: seconds that a rate limit may delay a request.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self.limit = float(FIRST)
        self.active = 0
        self._budgets: dict[str, Budget] = {}
        self._refused = False
        self._cut_at = self._resume_at = float("-inf")
        self._gate, self._left = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def turn(self, tokens: float) -> AsyncIterator[None]:
        """Wait for a place, and hold it.

        Args:
            tokens: approximate tokens of the request, read and written.

        Raises:
            FaultError: the server's rate limit asks for a longer wait than allowed.
        """
        async with self._gate:
            while self.active >= int(self.limit):
                self._left.clear()
                await self._left.wait()
            while (seconds := self.delay(tokens)) > 0:
                if seconds > self._longest:
                    raise FaultError("has used up its rate limit", "rate limit", after=seconds)
                await asyncio.sleep(seconds)
            for kind, budget in self._budgets.items():
                budget.left -= 1 if kind == "requests" else tokens
            self.active += 1
        try:
            yield
        finally:
            self.active -= 1
            self._left.set()

    def delay(self, tokens: float) -> float:
        """Return the seconds that a request has to wait now."""
        now = asyncio.get_running_loop().time()
        waits = [self._resume_at - now]
        waits += [b.wait(1 if kind == "requests" else tokens, now) for kind, b in self._budgets.items()]
        return max(0.0, *waits)

    def answered(self) -> None:
        """Allow more requests at once: the server answered one."""
        self.limit += 1 / self.limit if self._refused else 1

    def learn(self, headers: Mapping[str, str]) -> None:
        """Read rate limits from headers."""
        now = asyncio.get_running_loop().time()
        for kind in KINDS:
            if (found := read_limit(headers, kind)) is not None:
                limit, left, full_in = found
                if left < limit and full_in > 0:
                    self._budgets[kind] = Budget(limit, left, (limit - left) / full_in, now)
                else:
                    self._budgets.pop(kind, None)

    def refused(self, after: float | None) -> None:
        """Send fewer requests at once: the server is busy.

        Args:
            after: seconds that it asks all requests to wait.
        """
        now = asyncio.get_running_loop().time()
        self._refused = True
        if after is not None:
            self._resume_at = max(self._resume_at, now + after)
        if now - self._cut_at > CUT_PAUSE:
            self._cut_at, self.limit = now, max(1.0, self.limit / 2)


def read_limit(headers: Mapping[str, str], kind: str) -> tuple[float, float, float] | None:
    """Return limit, rest, and seconds until full, from OpenAI's or Anthropic's headers; ``None`` without them."""
    for prefix, suffix in (("x-ratelimit-", f"-{kind}"), (f"anthropic-ratelimit-{kind}-", "")):
        limit, left, reset = (headers.get(f"{prefix}{name}{suffix}") for name in ("limit", "remaining", "reset"))
        if limit is None or left is None or reset is None:
            continue
        try:
            numbers = float(limit), float(left), seconds(reset, headers.get("date"))
        except (ValueError, TypeError, OverflowError):
            continue
        if numbers[0] >= 1 and all(0 <= number < 1e12 for number in numbers):
            return numbers
    return None


def seconds(reset: str, date: str | None) -> float:
    """Return the seconds of ``6m0s``, ``20ms``, ``1.5``, or until a time, which counts from the response's ``Date``.

    Raises:
        ValueError: it is none of them.
    """
    parts = DURATION.findall(reset)
    if parts and "".join(number + unit for number, unit in parts) == reset:
        return sum(float(number) * SECONDS[unit] for number, unit in parts)
    try:
        return float(reset)
    except ValueError:
        when = datetime.fromisoformat(reset)
    if date is None:
        raise ValueError("a point in time needs the server's date")
    return max(0.0, (when - parsedate_to_datetime(date)).total_seconds())
