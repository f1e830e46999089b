"""The expected changes of rows when money moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....rows.database import Database
from ....rows.expected import Must, inserted, updated
from ...simulators.wallet import ledger


@dataclass(frozen=True)
class Move:
    """Money that goes out or comes in.

    Args:
        kind: kind of transaction.
        party: name or address of the other side.
        amount: amount in cents, negative for outgoing money.
        note: required note; ``None`` for any.
        reference: what it settles; ``None``: anything.
    """

    kind: str
    party: str
    amount: int
    note: str | None = None
    reference: str | None = None


def moved(db: Database, *moves: Move) -> tuple[Must, ...]:
    """Return the changes of some movements: the balance, and a transaction for each."""
    total = sum(move.amount for move in moves)
    return (
        updated("wallets", ledger.WALLET, "balance", balance=ledger.balance(db) + total),
        *(inserted("transactions", f"{move.kind} {move.party}", **_columns(move)) for move in moves),
    )


def sent(db: Database, email: str, amount: int, note: str | None = None) -> tuple[Must, ...]:
    """Return a payment to another user."""
    return moved(db, Move("sent", email, -amount, note))


def paid(db: Database, *requests: int) -> tuple[Must, ...]:
    """Return the changes of paid requests."""
    moves, settled = [], []
    for id in requests:
        row = db.row("SELECT * FROM money_requests WHERE id = ?", id)
        assert row is not None
        moves.append(Move("sent", row["person"], -row["amount"], reference=f"request {id}"))
        settled.append(updated("money_requests", id, f"request {id} paid", status="paid"))
    return (*moved(db, *moves), *settled)


def requested(email: str, amount: int, note: str | None = None) -> Must:
    """Return the change of a new request by the user."""
    columns: dict[str, Any] = {"direction": "sent", "person": email, "amount": amount, "status": "open"}
    return inserted("money_requests", f"asked {email}", **columns, **({} if note is None else {"note": note}))


def _columns(move: Move) -> dict[str, Any]:
    optional = {"note": move.note, "reference": move.reference}
    columns = {"kind": move.kind, "party": move.party, "amount": move.amount}
    return columns | {name: value for name, value in optional.items() if value is not None}
