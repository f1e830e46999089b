"""Exact costs of requests, and the cap on a run's spending."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pydantic

from ...errors import SpendingCapError, UsageError
from .conversation import Usage

PRICES = Path(__file__).parent / "prices.json"
DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
"""The suffix of a dated model name."""
IMAGE_TOKENS = 50_000
"""More tokens than any provider counts for one image."""
DEAREST_WRITE = 2
"""Writing to a prompt cache costs at most so many times the price of reading."""
MILLION = 1_000_000


class Price(pydantic.BaseModel):
    """Dollars per million tokens.

    Args:
        input: price of tokens read.
        output: price of tokens written, reasoning included.
        cached: price of tokens read from the provider's prompt cache (default: ``input``).
        cache_write: price of tokens written to that cache (default: ``input``).
        above: number of prompt tokens above which these prices apply.
        long: prices of long prompts, if they differ.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_write: Decimal | None = None
    above: int = 0
    long: Price | None = None

    def of(self, usage: Usage) -> Decimal:
        """Return the cost of a request, in dollars."""
        if self.long is not None and usage.prompt > self.long.above:
            return self.long.of(usage)
        cached = self.input if self.cached is None else self.cached
        write = self.input if self.cache_write is None else self.cache_write
        fresh = max(0, usage.prompt - usage.cached - usage.cache_writes)
        total = fresh * self.input + usage.cached * cached + usage.cache_writes * write + usage.completion * self.output
        return total / MILLION

    def at_most(self, prompt: int, completion: int) -> Decimal:
        """Return the highest possible cost of a request.

        Args:
            prompt: upper bound of its prompt tokens.
            completion: the longest answer, in tokens.
        """
        if self.long is not None and prompt > self.long.above:
            return self.long.at_most(prompt, completion)
        dearest = max(self.input * DEAREST_WRITE, self.cache_write or self.input, self.cached or self.input)
        return (prompt * dearest + completion * self.output) / MILLION


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Price]:
    models = json.loads(PRICES.read_text(encoding="utf-8"), parse_float=Decimal)["models"]
    return {name: Price.model_validate(price) for name, price in models.items()}


def price_of(model: str, given: tuple[float, float] | None) -> Price | None:
    """Return the price of a model: the given one, or the one in the table; ``None`` if it is unknown.

    A name that adds a date, as ``gpt-4o-2024-08-06`` does, has the price of the name without it.
    """
    if given is not None:
        return Price(input=Decimal(str(given[0])), output=Decimal(str(given[1])))
    return _table().get(model) or _table().get(DATED.sub("", model))


def required_price(model: str, price: Price | None) -> Price:
    """Return the price, which a spending cap needs.

    Raises:
        UsageError: the price is unknown.
    """
    if price is None:
        raise UsageError(
            f"--max-cost needs a price, and the price of {model!r} is unknown: set --price IN,OUT in dollars per "
            "million tokens"
        )
    return price


class Spending:
    """A run's spending and its cap. A file keeps the charges, so that a resumed run continues from them.

    A request reserves its highest possible cost before it is sent, and is settled at its actual cost. If the answer is
    lost on its way, the reserved amount stays charged, since the provider may have billed it.

    Args:
        file: one JSON line per charge; ``None`` keeps no file.
        cap: the most that may be spent, in dollars; ``None`` for no limit.
    """

    def __init__(self, file: Path | None, cap: float | None) -> None:
        self.cap = None if cap is None else Decimal(str(cap))
        self.spent, self.lost, self.reserved = Decimal(0), Decimal(0), Decimal(0)
        self._file = file
        self._settled = asyncio.Event()
        for line in _lines(file):
            self._count(Decimal(str(line.get("cost", 0))), lost=bool(line.get("lost")))

    async def reserve(self, most: Decimal) -> None:
        """Reserve the highest cost of a request; wait for other requests to settle if too little is left.

        Raises:
            SpendingCapError: no other request is running, and the rest is too small.
        """
        while self.cap is not None and self.spent + self.lost + self.reserved + most > self.cap:
            if not self.reserved:
                lost = f", of which up to ${self.lost:.4f} for answers that were lost" if self.lost else ""
                raise SpendingCapError(
                    f"the cap of ${self.cap:f} (--max-cost) is reached: ${self.spent + self.lost:.4f} are spent{lost}, "
                    f"and the next request may cost ${most:.4f}; raise --max-cost and --resume, or lower max_tokens"
                )
            await self._settled.wait()
        self.reserved += most

    def settle(self, most: Decimal, cost: Decimal, *, lost: bool = False) -> None:
        """Charge the cost of a request and release its reservation."""
        self.reserved -= most
        self._count(cost, lost=lost)
        settled, self._settled = self._settled, asyncio.Event()  # an event belongs to one event loop
        settled.set()
        if self._file is None or not cost:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"cost": str(cost)} | ({"lost": True} if lost else {})) + "\n")
        except OSError as error:
            raise UsageError(f"cannot record charges in {self._file}: {error.strerror}") from None

    def _count(self, cost: Decimal, *, lost: bool) -> None:
        if lost:
            self.lost += cost
        else:
            self.spent += cost


def _lines(file: Path | None) -> list[dict[str, Any]]:
    """Return the charges of a file. A last line that a crash cut off is dropped, from the file as well."""
    if file is None or not file.exists():
        return []
    try:
        written = file.read_bytes()
        whole = written[: written.rfind(b"\n") + 1]
        if len(whole) < len(written):
            os.truncate(file, len(whole))
        return [json.loads(line) for line in whole.splitlines()]
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the charges in {file}: {error}; remove it to start at 0") from None
