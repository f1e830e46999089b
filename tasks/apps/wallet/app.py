"""``Wallet``: money that is sent, requested and spent."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from ....errors import ToolError
from ...rows.database import Row
from ..world.app import App, Id, Maybe, Money, Page, Words, call, cents, day, money
from . import ledger

Kind = Literal["sent", "received", "deposit", "purchase", "refund"]
Status = Literal["open", "paid", "declined", "withdrawn"]


class Wallet(App):
    """The user's electronic wallet."""

    name = "wallet"
    about = "money: balance, transactions, sending, requests, a monthly limit"
    ids: ClassVar[dict[str, str]] = {"request_id": "money_requests", "transaction_id": "transactions"}
    stray = ("wallet_set_limit", {"amount": 98_765.43})
    schema: ClassVar[str] = """
        CREATE TABLE wallets (id INTEGER PRIMARY KEY AUTOINCREMENT, balance INTEGER, monthly_limit INTEGER);
        CREATE TABLE wallet_members (id INTEGER PRIMARY KEY AUTOINCREMENT, email TEXT UNIQUE);
        CREATE TABLE transactions (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT, party TEXT, amount INTEGER,
            note TEXT, reference TEXT, created_at TEXT);
        CREATE TABLE money_requests (id INTEGER PRIMARY KEY AUTOINCREMENT, direction TEXT, person TEXT, amount INTEGER,
            note TEXT, status TEXT, created_at TEXT);
    """

    @call
    def balance(self) -> dict[str, float]:
        """How much money is in the wallet."""
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
        """What went out (amounts below zero) and came in, newest first; several conditions must all hold.

        Args:
            kind: of transaction; "sent" and "received" are money to and from people.
            party: a part of the e-mail address or of the name on the other side.
            words: stand in the note.
            since: on this day or later, such as 2025-05-14.
            until: on this day or earlier.
            page: of the listing.
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
        """A transaction, with the request or the order that it settles.

        Args:
            transaction_id: which.
        """
        row = self.find("transactions", transaction_id, "transaction")
        return {**_transaction(row), "reference": row["reference"]}

    @call
    def send_money(self, to: Words, amount: Money, note: Maybe = "") -> dict[str, Any]:
        """Send money to somebody. The balance and the monthly limit must allow it.

        Args:
            to: the e-mail address of somebody who has a wallet.
            amount: at most two decimals.
            note: what it is for.
        """
        person, whole = self._member(to), cents(amount)
        ledger.check(self.db, whole, self.now)
        id = ledger.book(self.db, self.stamp, "sent", person, -whole, note=note)
        return {"transaction_id": id, "balance": money(ledger.balance(self.db))}

    @call
    def request_money(self, person: Words, amount: Money, note: Maybe = "") -> dict[str, Any]:
        """Ask somebody for money.

        Args:
            person: the e-mail address of somebody who has a wallet.
            amount: at most two decimals.
            note: what it is for.
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
        """Requests for money, newest first.

        Args:
            direction: "received" are those in which others ask the user, "sent" those of the user.
            status: what became of them; null for any.
            person: a part of the other's e-mail address.
            page: of the listing.
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
        """Pay an open request of somebody else. The balance and the monthly limit must allow it.

        Args:
            request_id: which.
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
        """Turn an open request of somebody else down.

        Args:
            request_id: which.
        """
        self._open(request_id, "received")
        self.db.update("money_requests", request_id, status="declined")
        return {"request_id": request_id, "status": "declined"}

    @call
    def withdraw_request(self, request_id: Id) -> dict[str, Any]:
        """Take an open request of the user back.

        Args:
            request_id: which.
        """
        self._open(request_id, "sent")
        self.db.update("money_requests", request_id, status="withdrawn")
        return {"request_id": request_id, "status": "withdrawn"}

    @call
    def get_limit(self) -> dict[str, float]:
        """How much may go out in a calendar month, by sending and buying, and how much of that is left."""
        now = {"spent_this_month": ledger.spent(self.db, self.now), "left_this_month": ledger.left(self.db, self.now)}
        return {"monthly_limit": money(ledger.limit(self.db)), **{name: money(value) for name, value in now.items()}}

    @call
    def set_limit(self, amount: Money) -> dict[str, float]:
        """Change how much may go out in a calendar month.

        Args:
            amount: at most two decimals.
        """
        whole = cents(amount)
        if whole == ledger.limit(self.db):
            raise ToolError(f"409 the limit is {amount} already")
        self.db.update("wallets", ledger.WALLET, monthly_limit=whole)
        return {"monthly_limit": money(whole)}

    def _member(self, email: str) -> str:
        if self.db.row("SELECT id FROM wallet_members WHERE email = ?", email.lower()) is None:
            raise ToolError(f"404 no other user with the address {email[:60]!r} has a wallet")
        return email.lower()

    def _open(self, request_id: int, direction: str) -> Row:
        row = self.find("money_requests", request_id, "request")
        if row["direction"] != direction:
            whose = "the user's own" if direction == "received" else "somebody else's"
            raise ToolError(f"409 request {request_id} is {whose}")
        if row["status"] != "open":
            raise ToolError(f"409 request {request_id} is {row['status']} already")
        return row


def _transaction(row: Row) -> dict[str, Any]:
    shown = {"transaction_id": row["id"], "at": row["created_at"], "kind": row["kind"], "party": row["party"]}
    return {**shown, "amount": money(row["amount"]), "note": row["note"]}


def _request(row: Row) -> dict[str, Any]:
    shown = {"request_id": row["id"], "at": row["created_at"], "person": row["person"]}
    return {**shown, "amount": money(row["amount"]), "note": row["note"], "status": row["status"]}
