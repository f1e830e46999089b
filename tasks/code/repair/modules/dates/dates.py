"""Dates of the Gregorian calendar as triples ``(year, month, day)``, without the standard library."""

from __future__ import annotations

Date = tuple[int, int, int]
LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def is_leap(year: int) -> bool:
    """Return whether a year has a February 29."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year: int, month: int) -> int:
    """Return the number of days in a month.

    Raises:
        ValueError: there is no such month.
    """
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month}")
    return 29 if month == 2 and is_leap(year) else LENGTHS[month - 1]


def check(date: Date) -> Date:
    """Return the date unchanged.

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
    """Return the number of a day; January 1 of year 1 is day 1."""
    year, month, day = check(date)
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    return days + day_of_year((year, month, day))


def day_of_year(date: Date) -> int:
    """Return the number of a day in its year; January 1 is day 1."""
    year, month, day = date
    return sum(days_in_month(year, earlier) for earlier in range(1, month)) + day


def from_ordinal(number: int) -> Date:
    """Return the date of a day's number."""
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
    """Return the name of the day of the week."""
    return WEEKDAYS[(ordinal(date) - 1) % 7]


def add_days(date: Date, days: int) -> Date:
    """Return the date some days later, or earlier if ``days`` is negative."""
    return from_ordinal(ordinal(date) + days)


def add_months(date: Date, months: int) -> Date:
    """Return the same day in another month, or the last day of that month if it is shorter."""
    year, month, day = check(date)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    return check((year, month, min(day, days_in_month(year, month))))


def between(one: Date, other: Date) -> int:
    """Return the number of days from one date to another."""
    return ordinal(other) - ordinal(one)


def age(born: Date, today: Date) -> int:
    """Return an age in whole years; a birthday on February 29 counts as March 1 in other years."""
    years = today[0] - born[0]
    return years - 1 if today[1:] < born[1:] else years


def parse(text: str) -> Date:
    """Return the date in a text such as ``2024-02-29``.

    Raises:
        ValueError: the text has another format, or the date does not exist.
    """
    parts = text.strip().split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise ValueError(f"{text!r} does not have the format year-month-day")
    return check((int(parts[0]), int(parts[1]), int(parts[2])))


def business_days(one: Date, other: Date) -> int:
    """Return the number of days from Monday to Friday between two dates, excluding the second date."""
    return sum(number % 7 not in (6, 0) for number in range(ordinal(one), ordinal(other)))
