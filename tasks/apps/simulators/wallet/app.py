"""``Wallet``: sending, requesting and spending money."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from .....errors import ToolError
from ....rows.database import Row
from ..app import App, Id, Maybe, Money, Page, Words, call, cents, day, money
from . import ledger

Kind = Literal["sent", "received", "deposit", "purchase", "refund"]
Status = Literal["open", "paid", "declined", "withdrawn"]


class Wallet(App):
    """The user's electronic wallet."""

    name = "wallet"
    about = "money: balance, transactions, payments, requests, a monthly limit"
    ids: ClassVar[dict[str, str]] = {"request_id": "money_requests", "transaction_id": "transactions"}
    stray = ("wallet_set_limit", {"amount": 98_765.43})

    @call
    def balance(self) -> dict[str, float]:
        """Show the wallet balance."""
        return {"balance": money(ledger.balance(self.db))}

    @call
    def list_transactions(
        self,
        kind: Kind | None = None,
        party: Maybe = "",
        words: Maybe = "",
        since: Maybe = "",
        until: Maybe = "",
        page: Page = 1,
    ) -> dict[str, Any]:
        """List transactions, newest first. Outgoing amounts are negative. A transaction must match every condition.

        Args:
            kind: kind of transaction; "sent" and "received" are payments to and from people.
            party: part of the email address or name of the other party.
            words: text to find in the note.
            since: only transactions on this day or later, such as 2025-05-14.
            until: only transactions on this day or earlier.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            """SELECT * FROM transactions WHERE (kind = ?1 OR ?1 IS NULL)
               AND (instr(lower(party), lower(?2)) OR ?2 = '') AND (instr(lower(note), lower(?3)) OR ?3 = '')
               AND substr(created_at, 1, 10) >= ?4 AND (substr(created_at, 1, 10) <= ?5 OR ?5 = '')
               ORDER BY created_at DESC, id DESC""",
            kind,
            party,
            words,
            since and day(since, "since"),
            until and day(until, "until"),
        )
        return self.paged([_transaction(row) for row in rows], page)

    @call
    def get_transaction(self, transaction_id: Id) -> dict[str, Any]:
        """Show a transaction, with the request or order that it settles.

        Args:
            transaction_id: ID of the transaction.
        """
        row = self.find("transactions", transaction_id, "transaction")
        return {**_transaction(row), "reference": row["reference"]}

    @call
    def send_money(self, to: Words, amount: Money, note: Maybe = "") -> dict[str, Any]:
        """Send money to someone. The balance and the monthly limit must allow it.

        Args:
            to: email address of someone who has a wallet.
            amount: amount with at most two decimals.
            note: purpose of the payment.
        """
        person, whole = self._member(to), cents(amount)
        ledger.check(self.db, whole, self.now)
        id = ledger.book(self.db, self.stamp, "sent", person, -whole, note=note)
        return {"transaction_id": id, "balance": money(ledger.balance(self.db))}

    @call
    def request_money(self, person: Words, amount: Money, note: Maybe = "") -> dict[str, Any]:
        """Request money from someone.

        Args:
            person: email address of someone who has a wallet.
            amount: amount with at most two decimals.
            note: purpose of the payment.
        """
        columns = {"direction": "sent", "person": self._member(person), "amount": cents(amount), "note": note}
        return {"request_id": self.db.insert("money_requests", **columns, status="open", created_at=self.stamp)}

    @call
    def list_requests(
        self,
        direction: Literal["received", "sent"],
        status: Status | None = "open",
        person: Maybe = "",
        page: Page = 1,
    ) -> dict[str, Any]:
        """List requests for money, newest first.

        Args:
            direction: "received" for requests from others, "sent" for the user's own requests.
            status: status of the requests; null for any.
            person: part of the other person's email address.
            page: page of the results, starting at 1.
        """
        rows = self.db.rows(
            """SELECT * FROM money_requests WHERE direction = ?1 AND (status = ?2 OR ?2 IS NULL)
               AND (instr(person, lower(?3)) OR ?3 = '') ORDER BY created_at DESC, id DESC""",
            direction,
            status,
            person,
        )
        return self.paged([_request(row) for row in rows], page)

    @call
    def pay_request(self, request_id: Id) -> dict[str, Any]:
        """Pay someone else's open request. The balance and the monthly limit must allow it.

        Args:
            request_id: ID of the request.
        """
        row = self._open(request_id, "received")
        ledger.check(self.db, row["amount"], self.now)
        reference = f"request {request_id}"
        id = ledger.book(
            self.db, self.stamp, "sent", row["person"], -row["amount"], note=row["note"], reference=reference
        )
        self.db.update("money_requests", request_id, status="paid")
        return {"transaction_id": id, "balance": money(ledger.balance(self.db))}

    @call
    def decline_request(self, request_id: Id) -> dict[str, Any]:
        """Decline someone else's open request.

        Args:
            request_id: ID of the request.
        """
        self._open(request_id, "received")
        self.db.update("money_requests", request_id, status="declined")
        return {"request_id": request_id, "status": "declined"}

    @call
    def withdraw_request(self, request_id: Id) -> dict[str, Any]:
        """Withdraw an open request that the user sent.

        Args:
            request_id: ID of the request.
        """
        self._open(request_id, "sent")
        self.db.update("money_requests", request_id, status="withdrawn")
        return {"request_id": request_id, "status": "withdrawn"}

    @call
    def get_limit(self) -> dict[str, float]:
        """Show the limit for payments and purchases per calendar month, and how much of it is left."""
        now = {"spent_this_month": ledger.spent(self.db, self.now), "left_this_month": ledger.left(self.db, self.now)}
        return {"monthly_limit": money(ledger.limit(self.db)), **{name: money(value) for name, value in now.items()}}

    @call
    def set_limit(self, amount: Money) -> dict[str, float]:
        """Set the limit for payments and purchases per calendar month.

        Args:
            amount: amount with at most two decimals.
        """
        whole = cents(amount)
        if whole == ledger.limit(self.db):
            raise ToolError(f"409 the limit is already {amount}")
        self.db.update("wallets", ledger.WALLET, monthly_limit=whole)
        return {"monthly_limit": money(whole)}

    def _member(self, email: str) -> str:
        if self.db.row("SELECT id FROM wallet_members WHERE email = ?", email.lower()) is None:
            raise ToolError(f"404 no one else with the address {email[:60]!r} has a wallet")
        return email.lower()

    def _open(self, request_id: int, direction: str) -> Row:
        row = self.find("money_requests", request_id, "request")
        if row["direction"] != direction:
            whose = "the user's own" if direction == "received" else "someone else's"
            raise ToolError(f"409 request {request_id} is {whose}")
        if row["status"] != "open":
            raise ToolError(f"409 request {request_id} has already been {row['status']}")
        return row


def _transaction(row: Row) -> dict[str, Any]:
    shown = {"transaction_id": row["id"], "at": row["created_at"], "kind": row["kind"], "party": row["party"]}
    return {**shown, "amount": money(row["amount"]), "note": row["note"]}


def _request(row: Row) -> dict[str, Any]:
    shown = {"request_id": row["id"], "at": row["created_at"], "person": row["person"]}
    return {**shown, "amount": money(row["amount"]), "note": row["note"], "status": row["status"]}
