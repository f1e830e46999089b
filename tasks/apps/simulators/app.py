"""``App``: one of the user's apps, with its tables and its calls."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, TypeVar

import pydantic

from ....errors import ToolError
from ...rows.database import Row
from ...rows.simulator import Simulator

F = TypeVar("F", bound=Callable[..., Any])
MARK = "_turnwise_app_call"
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII)

Id = Annotated[int, pydantic.Field(ge=1, le=10**9)]
"""The id of a database row."""
Page = Annotated[int, pydantic.Field(ge=1, le=1000)]
"""A page number, starting at 1."""
Words = Annotated[str, pydantic.Field(min_length=1, max_length=200)]
"""Non-empty short text."""
Maybe = Annotated[str, pydantic.Field(max_length=200)]
"""Short text, possibly empty."""
Body = Annotated[str, pydantic.Field(max_length=5_000)]
"""Longer text, possibly empty."""
Money = Annotated[float, pydantic.Field(gt=0, le=100_000)]
"""An amount of money with at most two decimals."""


class LoginNeeded(ToolError):
    """Raised when a call needs a login that the agent does not have.

    Args:
        app: name of the app.
    """

    def __init__(self, app: str) -> None:
        super().__init__(f"401 you are not logged in to {app}: call {app}_login with the password for it")
        self.app = app


class TooManyCalls(ToolError):
    """Raised when a call exceeds the number of calls per minute that an app accepts.

    Args:
        app: name of the app.
        seconds: number of simulated seconds until the app accepts calls again.
    """

    def __init__(self, app: str, seconds: int) -> None:
        super().__init__(f"429 too many calls to {app} within a minute: wait {seconds} seconds")
        self.app, self.seconds = app, seconds


def call(function: F) -> F:
    """Mark a method of an app as a call; agents see its signature and its docstring."""
    setattr(function, MARK, True)
    return function


class App(Simulator):
    """One app over the database of a world.

    A subclass sets the class fields and marks its calls with ``@call``. A call returns plain data (dicts, lists,
    strings, numbers) or raises ``ToolError``; the caller then rolls back its writes.

    Args:
        db: database of the world.
        now: simulated time.
        per_page: number of rows on a page of results.
    """

    private: ClassVar[bool] = True
    """Whether its calls need a login."""
    ids: ClassVar[Mapping[str, str]] = {}
    """The table of each id argument, e.g. ``{"message_id": "messages"}``; near misses use it to pick a wrong row."""
    stray: ClassVar[tuple[str, Mapping[str, Any]]]
    """A call, with its arguments, whose change no task asks for."""

    @classmethod
    def calls(cls) -> Mapping[str, Callable[..., Any]]:
        """Return the unbound calls by their full names, such as ``mail_search``."""
        found = {f"{cls.name}_{name}": value for name, value in vars(cls).items() if getattr(value, MARK, False)}
        return {f"{cls.name}_login": cls.login, **found} if cls.private else found

    def login(self, password: Words) -> str:
        """Log in to this app. All its other calls require a login.

        Args:
            password: the user's password for this app; account_passwords lists all passwords.
        """
        if password != self.db.value("SELECT password FROM passwords WHERE app = ?", self.name):
            raise ToolError(f"403 wrong password for {self.name}")
        return f"logged in to {self.name}"

    def find(self, table: str, id: int, what: str) -> Row:
        """Return the row of a table by its id.

        Args:
            table: table name or subquery.
            id: id of the row.
            what: noun for the error message, such as ``"order"``.

        Raises:
            ToolError: no such row exists.
        """
        row = self.db.row(f"SELECT * FROM {table} WHERE id = ?", id)
        if row is None:
            raise ToolError(f"404 {what} {id} does not exist")
        return row

    def paged(self, rows: Sequence[Any], page: int) -> dict[str, Any]:
        """Return one page of results with the total numbers of pages and rows.

        Args:
            rows: all results.
            page: page number, starting at 1.

        Raises:
            ToolError: the page does not exist.
        """
        pages = max(1, math.ceil(len(rows) / self.per_page))
        if page > pages:
            raise ToolError(f"422 page {page} does not exist: the last page is {pages}")
        begin = (page - 1) * self.per_page
        return {"items": list(rows[begin : begin + self.per_page]), "page": page, "pages": pages, "total": len(rows)}


def address(text: str) -> str:
    """Return an email address in lower case, as tables store it.

    Raises:
        ToolError: the text is not an email address.
    """
    if not ADDRESS.fullmatch(text):
        raise ToolError(f"422 {text[:80]!r} is not an email address")
    return text.lower()


def moment(text: str, what: str = "time") -> str:
    """Return a point in time as tables store it, ``2025-05-14T09:30``.

    Raises:
        ToolError: the text is not a local time.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ToolError(f"422 {what} {text[:40]!r} is not a time such as 2025-05-14T09:30") from None
    if read.tzinfo is not None or len(text) < len("2025-05-14T09:30"):
        raise ToolError(f"422 {what} {text[:40]!r} is not a local time such as 2025-05-14T09:30")
    return read.isoformat(timespec="minutes")


def day(text: str, what: str = "date") -> str:
    """Return a date as tables store it, ``2025-05-14``.

    Raises:
        ToolError: the text is not a date.
    """
    try:
        if len(text) != len("2025-05-14"):
            raise ValueError
        return datetime.strptime(text, "%Y-%m-%d").date().isoformat()
    except ValueError:
        raise ToolError(f"422 {what} {text[:40]!r} is not a date such as 2025-05-14") from None


def cents(amount: float, what: str = "amount") -> int:
    """Return an amount of money in cents, as tables store it.

    Raises:
        ToolError: the amount has more than two decimals, or is less than 0.01.
    """
    hundredths = round(amount * 100)
    if abs(hundredths - amount * 100) > 1e-6:
        raise ToolError(f"422 {what} {amount} has more than two decimals")
    if hundredths < 1:
        raise ToolError(f"422 {what} {amount} is less than 0.01")
    return hundredths


def money(hundredths: int) -> float:
    """Return an amount in cents as calls show it."""
    return hundredths / 100


def later(now: datetime, **span: float) -> str:
    """Return the time after ``now`` as tables store it; ``span`` takes the arguments of ``timedelta``."""
    return (now + timedelta(**span)).isoformat(timespec="minutes")
