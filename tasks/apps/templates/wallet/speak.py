"""Words for money, months and people in prompts, and parts of solutions that find them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any


def said(amount: int) -> str:
    """Return an amount of cents in words."""
    return f"{amount / 100:.2f}"


def whole(amount: float) -> int:
    """Return the cents of an amount that a call has shown."""
    return round(amount * 100)


def months(now: datetime, back: int) -> list[str]:
    """Return the last whole months as ``2025-03``, the latest first."""
    found, first = [], now.date().replace(day=1)
    for _ in range(back):
        first = (first - timedelta(days=1)).replace(day=1)
        found.append(f"{first:%Y-%m}")
    return found


def month_name(month: str) -> str:
    """Return a month in words, ``March 2025``."""
    return f"{date.fromisoformat(f'{month}-01'):%B %Y}"


def span(month: str) -> dict[str, str]:
    """Return the first and the last day of a month, as arguments of a listing."""
    first = date.fromisoformat(f"{month}-01")
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return {"since": first.isoformat(), "until": last.isoformat()}


def total(items: list[Any]) -> int:
    """Return the sum of the amounts of some items of a listing, in cents."""
    return sum(whole(item["amount"]) for item in items)
