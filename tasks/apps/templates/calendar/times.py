"""Arithmetic with the times of events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

Span = tuple[str, str]
"""Start and end, as ``2025-05-14T09:30``."""


def hours(spans: Iterable[Span]) -> float:
    """Return the total duration of some events."""
    seconds = sum((datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() for begin, end in spans)
    return seconds / 3600


def shifted(at: str, **span: float) -> str:
    """Return a later time; the arguments are those of ``timedelta``."""
    return (datetime.fromisoformat(at) + timedelta(**span)).isoformat(timespec="minutes")


def first_free(spans: Iterable[Span], begin: str, end: str, minutes: int) -> str | None:
    """Return the start of the first free period of some minutes; ``None`` if there is none.

    Args:
        spans: beginning and end of each event, in any order.
        begin: earliest time considered.
        end: the stretch must be over then.
        minutes: required length of the gap, in minutes.
    """
    at = begin
    for start, over in sorted(spans):
        if shifted(at, minutes=minutes) <= min(start, end):
            return at
        at = max(at, over)
    return at if shifted(at, minutes=minutes) <= end else None
