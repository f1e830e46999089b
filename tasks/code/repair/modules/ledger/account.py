"""One account: entries, balance, and a limit that it may be overdrawn by."""

from __future__ import annotations

from dataclasses import dataclass

from .money import Money


class RefusedError(Exception):
    """A booking that an account does not allow."""


@dataclass(frozen=True)
class Entry:
    """One booking: positive amounts come in, negative ones go out."""

    day: int
    amount: Money
    text: str


class Account:
    """Entries in the order of booking.

    Args:
        owner: whose it is.
        credit: how far the balance may fall below zero.
    """

    def __init__(self, owner: str, credit: Money | None = None) -> None:
        self.owner = owner
        self.credit = credit or Money(0)
        self.entries: list[Entry] = []

    @property
    def balance(self) -> Money:
        """What is there now."""
        return sum((entry.amount for entry in self.entries), Money(0))

    def balance_on(self, day: int) -> Money:
        """What was there at the end of a day."""
        return sum((entry.amount for entry in self.entries if entry.day <= day), Money(0))

    def available(self) -> Money:
        """What can be spent."""
        return self.balance + self.credit

    def book(self, day: int, amount: Money, text: str) -> None:
        """Add an entry.

        Raises:
            RefusedError: the amount is zero, the day before the last entry's, or there is not enough.
        """
        if amount.cents == 0:
            raise RefusedError("nothing to book")
        if self.entries and day < self.entries[-1].day:
            raise RefusedError(f"day {day} is over")
        if amount.cents < 0 and self.available() + amount < Money(0):
            raise RefusedError(f"{self.owner} has {self.available()} and cannot pay {Money(-amount.cents)}")
        self.entries.append(Entry(day, amount, text))

    def statement(self, first: int, last: int) -> list[str]:
        """The entries of some days as lines, between the balances before and after."""
        balance = self.balance_on(first - 1)
        lines = [f"before {balance}"]
        for entry in self.entries:
            if first <= entry.day <= last:
                balance = balance + entry.amount
                lines.append(f"{entry.day} {entry.text} {entry.amount} = {balance}")
        lines.append(f"after {balance}")
        return lines

    def interest(self, percent: int, day: int) -> Money:
        """Book a share of the balance: to the owner's good, or twice as much to be paid if it is overdrawn."""
        share = self.balance.percent(percent if self.balance.cents >= 0 else 2 * percent)
        if share.cents != 0:
            self.entries.append(Entry(day, share, "interest"))
        return share
