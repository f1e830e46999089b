"""Dates of the Gregorian calendar as triples ``(year, month, day)``, without the standard library's."""

from __future__ import annotations

Date = tuple[int, int, int]
LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def is_leap(year: int) -> bool:
    """Whether a year has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """How many days a month has.

    Raises:
        ValueError: there is no such month.
    """
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month}")
    return 29 if month == 2 and is_leap(year) else LENGTHS[month - 1]


def check(date: Date) -> Date:
    """The date itself.

    Raises:
        ValueError: there is no such date.
    """
    year, month, day = date
    if year < 1:
        raise ValueError(f"there is no year {year}")
    if not 1 <= day <= days_in_month(year, month):
        raise ValueError(f"month {month} of {year} has no day {day}")
    return date


def ordinal(date: Date) -> int:
    """Days since the beginning; the first of January of the year 1 is day 1."""
    year, month, day = check(date)
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    return days + day_of_year((year, month, day))


def day_of_year(date: Date) -> int:
    """1 for the first of January."""
    year, month, day = date
    return sum(days_in_month(year, earlier) for earlier in range(1, month)) + day


def from_ordinal(number: int) -> Date:
    """The date of a day's number."""
    if number < 1:
        raise ValueError(f"there is no day {number}")
    year = number // 366 + 1
    while ordinal((year + 1, 1, 1)) <= number:
        year += 1
    rest = number - ordinal((year, 1, 1)) + 1
    month = 1
    while rest > days_in_month(year, month):
        rest -= days_in_month(year, month)
        month += 1
    return year, month, rest


def weekday(date: Date) -> str:
    """The name of the day."""
    return WEEKDAYS[(ordinal(date) - 1) % 7]


def add_days(date: Date, days: int) -> Date:
    """A date some days later, or earlier if ``days`` is negative."""
    return from_ordinal(ordinal(date) + days)


def add_months(date: Date, months: int) -> Date:
    """The same day in another month; the last one of the month where it has no such day."""
    year, month, day = check(date)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    return check((year, month, min(day, days_in_month(year, month))))


def between(one: Date, other: Date) -> int:
    """Days from one date to another."""
    return ordinal(other) - ordinal(one)


def age(born: Date, today: Date) -> int:
    """Whole years; who was born on the 29th of February grows older on the 1st of March of other years."""
    years = today[0] - born[0]
    return years - 1 if today[1:] < born[1:] else years


def parse(text: str) -> Date:
    """A date written as ``2024-02-29``.

    Raises:
        ValueError: it is not written so, or does not exist.
    """
    parts = text.strip().split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise ValueError(f"{text!r} is not written as year-month-day")
    return check((int(parts[0]), int(parts[1]), int(parts[2])))


def business_days(one: Date, other: Date) -> int:
    """Days from Monday to Friday, from one date up to and without another."""
    return sum(number % 7 not in (6, 0) for number in range(ordinal(one), ordinal(other)))
