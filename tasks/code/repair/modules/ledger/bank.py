"""A bank whose accounts pay each other; payments never change the total amount of money."""

from __future__ import annotations

from collections.abc import Sequence

from .account import Account, RefusedError
from .money import Money


class Bank:
    """Accounts by their owner's name, and a fee on payments that goes to the account ``bank``.

    Args:
        fee: percent of each payment that its sender pays in addition.
    """

    def __init__(self, fee: int = 0) -> None:
        self.fee = fee
        self.day = 1
        self.accounts: dict[str, Account] = {"bank": Account("bank")}

    def open(self, owner: str, first: str = "0", credit: str = "0") -> Account:
        """Open an account with a first deposit, and return it.

        Raises:
            RefusedError: the owner already has an account.
        """
        if owner in self.accounts:
            raise RefusedError(f"{owner} already has an account")
        account = Account(owner, Money.parse(credit))
        self.accounts[owner] = account
        if Money.parse(first) > Money(0):
            account.book(self.day, Money.parse(first), "deposit")
        return account

    def pay(self, sender: str, receiver: str, amount: str, text: str = "payment") -> Money:
        """Move money between two accounts, and return the fee.

        Raises:
            RefusedError: an account does not exist, the payment is invalid, or the sender lacks funds; then
                nothing changes.
        """
        for name in (sender, receiver):
            if name not in self.accounts:
                raise RefusedError(f"{name} has no account")
        money = Money.parse(amount)
        if money <= Money(0) or sender == receiver:
            raise RefusedError(f"{amount} from {sender} to {receiver} is not a valid payment")
        fee = money.percent(self.fee)
        total = money + fee
        if self.accounts[sender].available() < total:
            raise RefusedError(f"{sender} cannot pay {total}")
        self.accounts[sender].book(self.day, Money(-money.cents), text)
        self.accounts[receiver].book(self.day, money, text)
        if fee > Money(0):
            self.accounts[sender].book(self.day, Money(-fee.cents), "fee")
            self.accounts["bank"].book(self.day, fee, "fee")
        return fee

    def share(self, sender: str, receivers: Sequence[str], amount: str) -> list[str]:
        """Pay equal parts to several receivers, and return the parts."""
        parts = Money.parse(amount).split(len(receivers))
        for receiver, part in zip(receivers, parts, strict=True):
            self.pay(sender, receiver, str(part), "share")
        return [str(part) for part in parts]

    def next_day(self, days: int = 1) -> int:
        """Advance by some days, and return the new day."""
        self.day += days
        return self.day

    def total(self) -> Money:
        """Return the total of all balances."""
        return sum((account.balance for account in self.accounts.values()), Money(0))

    def richest(self, count: int = 1) -> list[str]:
        """Return the owners with the largest balances, the largest first, then by name, without the bank itself."""
        owners = [name for name in self.accounts if name != "bank"]
        owners.sort(key=lambda name: (-self.accounts[name].balance.cents, name))
        return owners[:count]
