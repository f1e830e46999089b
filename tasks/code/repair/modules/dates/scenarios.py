"""The behavior that users of ``dates`` rely on."""

from __future__ import annotations

from .dates import (
    add_days,
    add_months,
    age,
    between,
    business_days,
    check,
    day_of_year,
    days_in_month,
    from_ordinal,
    is_leap,
    ordinal,
    parse,
    weekday,
)


def refusal(*work: object) -> object:
    """Return the result of a call, or the message of its error."""
    try:
        function, *arguments = work
        return function(*arguments)  # type: ignore[operator]
    except ValueError as error:
        return str(error)


def leap_years() -> object:
    return [is_leap(year) for year in (1900, 1996, 2000, 2023, 2024, 2100, 2400)]


def lengths_of_months() -> object:
    return [days_in_month(2023, month) for month in range(1, 13)]


def february() -> object:
    return days_in_month(2024, 2), days_in_month(2100, 2), days_in_month(2000, 2)


def there_are_twelve_months() -> object:
    return refusal(days_in_month, 2024, 0), refusal(days_in_month, 2024, 13), refusal(days_in_month, 2024, 12)


def dates_that_do_not_exist() -> object:
    return [refusal(check, date) for date in ((2023, 2, 29), (2023, 4, 31), (0, 1, 1), (2023, 1, 0), (1, 1, 1))]


def numbers_of_early_days() -> object:
    return ordinal((1, 1, 1)), ordinal((1, 12, 31)), ordinal((2, 1, 1)), ordinal((5, 1, 1))


def numbers_of_later_days() -> object:
    return ordinal((1970, 1, 1)), ordinal((2000, 3, 1)), ordinal((2024, 2, 29)), ordinal((401, 1, 1))


def days_of_a_year() -> object:
    return day_of_year((2024, 3, 1)), day_of_year((2023, 3, 1)), day_of_year((2023, 12, 31))


def numbers_become_dates() -> object:
    return [from_ordinal(number) for number in (1, 365, 366, 1461, 1462, 146097, 146098, 738945)]


def numbers_of_dates_become_the_same_dates() -> object:
    return [from_ordinal(ordinal((2024, 1, 1)) + step) for step in (0, 30, 31, 58, 59, 60, 365, 366)]


def there_is_no_day_before_the_first() -> object:
    return refusal(from_ordinal, 0), refusal(add_days, (1, 1, 1), -1)


def names_of_days() -> object:
    return weekday((2024, 2, 29)), weekday((2000, 1, 1)), weekday((1969, 7, 20)), weekday((1, 1, 1))


def a_week_has_seven_days() -> object:
    return [weekday((2023, 5, day)) for day in range(1, 9)]


def days_later() -> object:
    return add_days((2023, 12, 31), 1), add_days((2024, 2, 28), 2), add_days((2024, 1, 1), 366)


def days_earlier() -> object:
    return add_days((2024, 3, 1), -1), add_days((2023, 3, 1), -1), add_days((2023, 1, 1), -365)


def months_later() -> object:
    return add_months((2023, 11, 15), 2), add_months((2023, 1, 31), 1), add_months((2024, 1, 31), 1)


def months_earlier() -> object:
    return add_months((2023, 3, 31), -1), add_months((2023, 1, 5), -1), add_months((2023, 12, 5), -24)


def december_stays_december() -> object:
    return add_months((2023, 12, 1), 0), add_months((2023, 12, 1), 12), add_months((2023, 11, 30), 1)


def days_between_dates() -> object:
    return between((2024, 1, 1), (2024, 12, 31)), between((2023, 5, 2), (2023, 5, 1))


def ages() -> object:
    born = (1990, 6, 15)
    return [age(born, today) for today in ((2020, 6, 14), (2020, 6, 15), (2020, 7, 1), (2020, 5, 30))]


def ages_of_people_born_on_leap_days() -> object:
    return age((2000, 2, 29), (2001, 2, 28)), age((2000, 2, 29), (2001, 3, 1)), age((2000, 2, 29), (2004, 2, 29))


def dates_are_parsed() -> object:
    return parse("2024-02-29"), parse(" 0987-6-5 "), refusal(parse, "2023-02-29")


def text_that_is_not_a_date() -> object:
    return [refusal(parse, text) for text in ("2024-02", "2024-02-xx", "2024/02/29", "", "1-2-3-4")]


def working_days() -> object:
    monday = (2024, 7, 1)
    return [business_days(monday, add_days(monday, days)) for days in (0, 1, 5, 6, 7, 8, 14)]
