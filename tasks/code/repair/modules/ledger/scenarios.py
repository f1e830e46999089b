"""The behavior that users of ``ledger`` rely on."""

from __future__ import annotations

from .account import Account, RefusedError
from .bank import Bank
from .money import Money


def attempt(*work: object) -> object:
    """Return the result of a call, or the message of its error."""
    function, *arguments = work
    try:
        result = function(*arguments)  # type: ignore[operator]
    except (RefusedError, ValueError) as error:
        return f"refused: {error}"
    return str(result) if isinstance(result, Money) else result


def town(fee: int = 0) -> Bank:
    """Return a bank with three customers."""
    bank = Bank(fee)
    bank.open("ann", "100")
    bank.open("bob", "50.50", credit="20")
    bank.open("cid")
    return bank


def balances(bank: Bank) -> list[str]:
    """Return all balances, sorted by name."""
    return [f"{name} {bank.accounts[name].balance}" for name in sorted(bank.accounts)]


def amounts_are_parsed() -> object:
    return [Money.parse(text).cents for text in ("12", "12.5", "-3.07", "0.99", "-0.5")]


def text_that_is_not_an_amount() -> object:
    return [attempt(Money.parse, text) for text in ("", "1.234", "x", "1,5", "1.-2", ".5")]


def amounts_are_formatted() -> object:
    return [str(Money(cents)) for cents in (0, 5, 50, 1234, -5, -1234)]


def shares_are_rounded_toward_zero() -> object:
    return [str(Money(cents).percent(10)) for cents in (99, 100, -99, -105, 0)]


def parts_sum_to_the_whole() -> object:
    return [str(part) for part in Money(100).split(3)], [str(part) for part in Money(-10).split(4)]


def money_is_split_into_at_least_one_part() -> object:
    return attempt(Money(5).split, 0), [str(part) for part in Money(5).split(1)]


def balances_add_up() -> object:
    account = Account("ann")
    account.book(1, Money(500), "in")
    account.book(2, Money(-120), "out")
    return str(account.balance), [str(account.balance_on(day)) for day in range(4)]


def overdrafts_are_refused() -> object:
    account = Account("ann", Money(100))
    account.book(1, Money(50), "in")
    refused = attempt(account.book, 1, Money(-151), "out")
    account.book(1, Money(-150), "out")
    return refused, str(account.balance), str(account.available())


def invalid_bookings() -> object:
    account = Account("ann")
    account.book(5, Money(1), "in")
    return attempt(account.book, 5, Money(0), "?"), attempt(account.book, 4, Money(1), "late"), len(account.entries)


def statements() -> object:
    account = Account("ann")
    for day, cents in enumerate((1000, -250, 75, -5), 1):
        account.book(day, Money(cents), f"n{day}")
    return account.statement(2, 3)


def interest_on_savings_and_debts() -> object:
    rich, poor, even = Account("rich"), Account("poor", Money(1000)), Account("even")
    rich.book(1, Money(1000), "in")
    poor.book(1, Money(-1000), "out")
    shares = [str(account.interest(5, 2)) for account in (rich, poor, even)]
    return shares, str(rich.balance), str(poor.balance), len(even.entries)


def payments_move_money() -> object:
    bank = town()
    fee = bank.pay("ann", "bob", "30.25")
    return str(fee), balances(bank), str(bank.total())


def fees_go_to_the_bank() -> object:
    bank = town(fee=2)
    fee = bank.pay("ann", "cid", "50")
    return str(fee), balances(bank), str(bank.total())


def payments_need_funds_for_the_fee() -> object:
    bank = town(fee=2)
    return attempt(bank.pay, "ann", "cid", "99"), balances(bank)


def credit_can_be_spent_to_the_last_cent() -> object:
    bank = town()
    bank.pay("ann", "cid", "100")
    bank.pay("bob", "cid", "70.50")
    return balances(bank), attempt(bank.pay, "bob", "cid", "0.01")


def invalid_payments() -> object:
    bank = town()
    return [
        attempt(bank.pay, sender, receiver, amount)
        for sender, receiver, amount in (
            ("ann", "ann", "1"),
            ("ann", "bob", "0"),
            ("eve", "bob", "1"),
            ("ann", "eve", "1"),
        )
    ]


def accounts_are_opened_once() -> object:
    bank = town()
    return attempt(bank.open, "ann"), len(bank.accounts["cid"].entries), len(bank.accounts["ann"].entries)


def payments_in_equal_parts() -> object:
    bank = town()
    return bank.share("ann", ["bob", "cid", "bank"], "10"), balances(bank)


def days_pass() -> object:
    bank = town()
    bank.next_day()
    bank.pay("ann", "bob", "1", "rent")
    bank.next_day(3)
    bank.pay("ann", "bob", "2")
    return bank.day, bank.accounts["ann"].statement(1, 5)


def the_richest_owners() -> object:
    bank = town()
    bank.open("abe", "50.50")
    return bank.richest(), bank.richest(3), bank.richest(9)
