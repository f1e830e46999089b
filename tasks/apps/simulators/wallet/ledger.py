"""The money in the wallet: its balance, its limit, and its transactions."""

from __future__ import annotations

from datetime import datetime

from .....errors import ToolError
from ....rows.database import Database

WALLET = 1
"""Id of the only row of ``wallets``."""
OUT = ("sent", "purchase")
"""Kinds of transactions that count against the monthly limit."""
STEP = 5_000
"""Step of limits, in cents."""


def balance(db: Database) -> int:
    """Return the balance, in cents."""
    return int(db.value("SELECT balance FROM wallets"))


def limit(db: Database) -> int:
    """Return the limit on outgoing money in a calendar month, in cents."""
    return int(db.value("SELECT monthly_limit FROM wallets"))


def spent(db: Database, now: datetime) -> int:
    """Return the outgoing money of the calendar month so far, in cents; refunds do not reduce it."""
    month = f"{now:%Y-%m}"
    found = db.value(
        "SELECT sum(-amount) FROM transactions WHERE kind IN (?, ?) AND substr(created_at, 1, 7) = ?", *OUT, month
    )
    return int(found or 0)


def left(db: Database, now: datetime) -> int:
    """Return the money that may still go out in the calendar month, in cents."""
    return max(0, limit(db) - spent(db, now))


def check(db: Database, amount: int, now: datetime) -> None:
    """Check that an amount may go out.

    Raises:
        ToolError: there is not so much in the wallet, or the monthly limit forbids it.
    """
    if amount > balance(db):
        raise ToolError("409 the wallet balance is too low")
    if amount > left(db, now):
        raise ToolError("409 this would exceed the wallet's monthly limit")


def book(
    db: Database,
    at: str,
    kind: str,
    party: str,
    amount: int,
    *,
    note: str = "",
    reference: str = "",
) -> int:
    """Move money: insert a transaction, and update the balance.

    Args:
        db: the world's rows.
        at: when.
        kind: ``sent``, ``received``, ``deposit``, ``purchase`` or ``refund``.
        party: an e-mail address, or the name of a shop or bank.
        amount: in cents; below zero if it goes out.
        note: what it is for.
        reference: what it settles, such as ``request 7`` or ``order 3``.
    """
    db.update("wallets", WALLET, balance=balance(db) + amount)
    columns = {"kind": kind, "party": party, "amount": amount, "note": note, "reference": reference}
    return db.insert("transactions", created_at=at, **columns)


def afford(db: Database, amount: int, now: datetime) -> None:
    """Make room for an additional purchase in the history: raise the initial balance and the limit.

    Args:
        db: the world's rows, before an episode begins.
        amount: amount in cents.
        now: when the episode begins.
    """
    first = db.row("SELECT id, amount FROM transactions WHERE kind = 'deposit' ORDER BY created_at, id LIMIT 1")
    assert first is not None
    db.update("transactions", first["id"], amount=first["amount"] + amount)
    month = "SELECT sum(-amount) FROM transactions WHERE kind = 'purchase' AND substr(created_at, 1, 7) = ?"
    bought = int(db.value(month, f"{now:%Y-%m}") or 0)
    higher = limit(db) - (-bought // STEP) * STEP
    db.update("wallets", WALLET, balance=balance(db) + amount, monthly_limit=higher)
