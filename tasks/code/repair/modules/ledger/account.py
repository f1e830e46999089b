"""One account, with its entries, balance and credit limit."""

from __future__ import annotations

from dataclasses import dataclass

from .money import Money


class RefusedError(Exception):
    """Raised when an account or the bank refuses a booking."""


@dataclass(frozen=True)
class Entry:
    """One booking: a positive amount is a deposit, and a negative one a withdrawal."""

    day: int
    amount: Money
    text: str


class Account:
    """An account with its entries in order of booking.

    Args:
        owner: name of the owner.
        credit: amount by which the balance may fall below zero.
    """

    def __init__(self, owner: str, credit: Money | None = None) -> None:
        self.owner = owner
        self.credit = credit or Money(0)
        self.entries: list[Entry] = []

    @property
    def balance(self) -> Money:
        """The current balance."""
        return sum((entry.amount for entry in self.entries), Money(0))

    def balance_on(self, day: int) -> Money:
        """Return the balance at the end of a day."""
        return sum((entry.amount for entry in self.entries if entry.day <= day), Money(0))

    def available(self) -> Money:
        """Return the amount that the owner can spend."""
        return self.balance + self.credit

    def book(self, day: int, amount: Money, text: str) -> None:
        """Add an entry.

        Raises:
            RefusedError: the amount is zero, the day is before that of the last entry, or the account lacks funds.
        """
        if amount.cents == 0:
            raise RefusedError("the amount is zero")
        if self.entries and day < self.entries[-1].day:
            raise RefusedError(f"day {day} is before the last entry")
        if amount.cents < 0 and self.available() + amount < Money(0):
            raise RefusedError(f"{self.owner} has {self.available()} and cannot pay {Money(-amount.cents)}")
        self.entries.append(Entry(day, amount, text))

    def statement(self, first: int, last: int) -> list[str]:
        """Return the entries of some days as lines, between the balances before and after."""
        balance = self.balance_on(first - 1)
        lines = [f"before {balance}"]
        for entry in self.entries:
            if first <= entry.day <= last:
                balance = balance + entry.amount
                lines.append(f"{entry.day} {entry.text} {entry.amount} = {balance}")
        lines.append(f"after {balance}")
        return lines

    def interest(self, percent: int, day: int) -> Money:
        """Book interest on the balance, and return it. The owner of an overdrawn account pays twice the rate."""
        share = self.balance.percent(percent if self.balance.cents >= 0 else 2 * percent)
        if share.cents != 0:
            self.entries.append(Entry(day, share, "interest"))
        return share
