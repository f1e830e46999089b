"""Amounts of money in whole cents."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Money:
    """An amount in cents; arithmetic is exact."""

    cents: int = 0

    @classmethod
    def parse(cls, text: str) -> Money:
        """Return the amount in a text such as ``12``, ``12.5`` or ``-3.07``.

        Raises:
            ValueError: the text is not an amount.
        """
        sign = -1 if text.startswith("-") else 1
        whole, point, part = text.lstrip("-").partition(".")
        if not whole.isdigit() or (point and not part.isdigit()) or len(part) > 2:
            raise ValueError(f"{text!r} is not an amount of money")
        return cls(sign * (int(whole) * 100 + int(part.ljust(2, "0"))))

    def __str__(self) -> str:
        sign = "-" if self.cents < 0 else ""
        whole, part = divmod(abs(self.cents), 100)
        return f"{sign}{whole}.{part:02d}"

    def __add__(self, other: Money) -> Money:
        return Money(self.cents + other.cents)

    def __sub__(self, other: Money) -> Money:
        return Money(self.cents - other.cents)

    def percent(self, percent: int) -> Money:
        """Return a share in percent, rounded toward zero to a cent."""
        share = abs(self.cents) * percent // 100
        return Money(share if self.cents >= 0 else -share)

    def split(self, parts: int) -> list[Money]:
        """Return parts that differ by at most a cent and sum to the amount, the larger ones first.

        Raises:
            ValueError: ``parts`` is less than 1.
        """
        if parts < 1:
            raise ValueError(f"money cannot be split into {parts} parts")
        each, rest = divmod(self.cents, parts)
        return [Money(each + (1 if index < rest else 0)) for index in range(parts)]
