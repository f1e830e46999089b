"""Sets of integers as sorted lists of half-open intervals ``(start, end)``."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same numbers in as few intervals as possible, sorted and without empty intervals.

    Raises:
        ValueError: an interval ends before it starts.
    """
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if end < start:
            raise ValueError(f"the interval {start} to {end} ends before it starts")
        if start == end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def contains(intervals: list[Interval], number: int) -> bool:
    """Return whether merged intervals contain a number, by bisection."""
    low, high = 0, len(intervals)
    while low < high:
        middle = (low + high) // 2
        start, end = intervals[middle]
        if number < start:
            high = middle
        elif number >= end:
            low = middle + 1
        else:
            return True
    return False


def intersect(one: list[Interval], other: list[Interval]) -> list[Interval]:
    """Return the numbers that both merged lists contain."""
    common: list[Interval] = []
    i = j = 0
    while i < len(one) and j < len(other):
        start = max(one[i][0], other[j][0])
        end = min(one[i][1], other[j][1])
        if start < end:
            common.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return common


def subtract(one: list[Interval], other: list[Interval]) -> list[Interval]:
    """Return the numbers that the first merged list contains and the second does not."""
    left: list[Interval] = []
    for start, end in one:
        position = start
        for low, high in other:
            if high <= position or low >= end:
                continue
            if low > position:
                left.append((position, low))
            position = high
        if position < end:
            left.append((position, end))
    return left


def gaps(intervals: list[Interval], start: int, end: int) -> list[Interval]:
    """Return the numbers from ``start`` up to ``end`` that merged intervals do not contain."""
    return subtract([(start, end)] if start < end else [], intervals)


def size(intervals: Iterable[Interval]) -> int:
    """Return how many different numbers the intervals contain."""
    return sum(end - start for start, end in merge(intervals))


def nearest(intervals: list[Interval], number: int) -> int | None:
    """Return the nearest number that merged intervals contain.

    Of two equally near numbers it is the smaller one. Without intervals, return ``None``.
    """
    best: int | None = None
    for start, end in intervals:
        candidate = min(max(number, start), end - 1)
        if best is None or abs(candidate - number) < abs(best - number):
            best = candidate
    return best
