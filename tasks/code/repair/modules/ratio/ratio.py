"""Exact fractions in lowest terms, continued fractions and decimal expansions."""

from __future__ import annotations

from collections.abc import Iterable


def gcd(one: int, other: int) -> int:
    """Return the greatest common divisor, by Euclid's algorithm; it is never negative."""
    while other:
        one, other = other, one % other
    return abs(one)


class Ratio:
    """A fraction ``top / bottom`` in lowest terms, with a positive ``bottom``.

    Raises:
        ZeroDivisionError: ``bottom`` is zero.
    """

    def __init__(self, top: int, bottom: int = 1) -> None:
        if bottom == 0:
            raise ZeroDivisionError(f"{top} / 0")
        common = gcd(top, bottom)
        if bottom < 0:
            common = -common
        self.top = top // common
        self.bottom = bottom // common

    @classmethod
    def parse(cls, text: str) -> Ratio:
        """Return the fraction in a text such as ``3/4``, ``-2`` or ``1.25``."""
        if "/" in text:
            top, bottom = text.split("/")
            return cls(int(top), int(bottom))
        if "." in text:
            whole, digits = text.strip().split(".")
            return cls(int(whole + digits), 10 ** len(digits))
        return cls(int(text))

    def __repr__(self) -> str:
        return f"{self.top}/{self.bottom}" if self.bottom != 1 else str(self.top)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ratio) and (self.top, self.bottom) == (other.top, other.bottom)

    def __hash__(self) -> int:
        return hash((self.top, self.bottom))

    def __lt__(self, other: Ratio) -> bool:
        return self.top * other.bottom < other.top * self.bottom

    def __le__(self, other: Ratio) -> bool:
        return self.top * other.bottom <= other.top * self.bottom

    def __neg__(self) -> Ratio:
        return Ratio(-self.top, self.bottom)

    def __add__(self, other: Ratio) -> Ratio:
        return Ratio(self.top * other.bottom + other.top * self.bottom, self.bottom * other.bottom)

    def __sub__(self, other: Ratio) -> Ratio:
        return self + -other

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(self.top * other.top, self.bottom * other.bottom)

    def __truediv__(self, other: Ratio) -> Ratio:
        return Ratio(self.top * other.bottom, self.bottom * other.top)

    def __pow__(self, exponent: int) -> Ratio:
        if exponent < 0:
            return Ratio(self.bottom**-exponent, self.top**-exponent)
        return Ratio(self.top**exponent, self.bottom**exponent)

    def floor(self) -> int:
        """Return the largest integer that is not greater."""
        return self.top // self.bottom

    def round(self) -> int:
        """Return the nearest integer; halves are rounded away from zero."""
        nearest = (2 * abs(self.top) + self.bottom) // (2 * self.bottom)
        return nearest if self.top >= 0 else -nearest

    def continued(self) -> list[int]:
        """Return the terms of the continued fraction."""
        terms, top, bottom = [], self.top, self.bottom
        while bottom:
            whole, rest = divmod(top, bottom)
            terms.append(whole)
            top, bottom = bottom, rest
        return terms

    def decimal(self) -> str:
        """Return the decimal expansion, with the period in parentheses: 1/6 is ``0.1(6)``."""
        sign = "-" if self.top < 0 else ""
        whole, rest = divmod(abs(self.top), self.bottom)
        if rest == 0:
            return f"{sign}{whole}"
        digits, seen = "", dict[int, int]()
        while rest and rest not in seen:
            seen[rest] = len(digits)
            digit, rest = divmod(rest * 10, self.bottom)
            digits += str(digit)
        if rest:
            digits = f"{digits[: seen[rest]]}({digits[seen[rest] :]})"
        return f"{sign}{whole}.{digits}"


def from_continued(terms: list[int]) -> Ratio:
    """Return the value of a continued fraction."""
    value = Ratio(terms[-1])
    for term in reversed(terms[:-1]):
        value = Ratio(term) + Ratio(1) / value
    return value


def mean(values: Iterable[Ratio]) -> Ratio:
    """Return the arithmetic mean, or 0 without values."""
    total, count = Ratio(0), 0
    for value in values:
        total, count = total + value, count + 1
    return total / Ratio(count) if count else total
