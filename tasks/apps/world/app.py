"""``App``: one of the programs that a person uses, with its tables and the calls that it answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, TypeVar

import pydantic

from ....errors import ToolError
from ...rows.database import Database, Row

F = TypeVar("F", bound=Callable[..., Any])
MARK = "_turnwise_app_call"
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII)

Id = Annotated[int, pydantic.Field(ge=1, le=10**9)]
"""The number of a row."""
Page = Annotated[int, pydantic.Field(ge=1, le=1000)]
"""Pages are counted from 1."""
Words = Annotated[str, pydantic.Field(min_length=1, max_length=200)]
"""A short text that may not be empty."""
Maybe = Annotated[str, pydantic.Field(max_length=200)]
"""A short text that may be empty."""
Body = Annotated[str, pydantic.Field(max_length=5_000)]
"""A longer text."""
Money = Annotated[float, pydantic.Field(gt=0, le=100_000)]
"""An amount with at most two decimals."""


class LoginNeeded(ToolError):
    """A call of an app that nobody is logged in to.

    Args:
        app: its name.
    """

    def __init__(self, app: str) -> None:
        super().__init__(f"401 you are not logged in to {app}: call {app}_login with its password")
        self.app = app


class TooManyCalls(ToolError):
    """A call beyond what an app answers in a minute.

    Args:
        app: its name.
        seconds: after which it answers again.
    """

    def __init__(self, app: str, seconds: int) -> None:
        super().__init__(f"429 too many calls of {app} in a minute: wait {seconds} seconds")
        self.app, self.seconds = app, seconds


def call(function: F) -> F:
    """Mark a method of an app as one of its calls: its signature and docstring are what an agent knows of it."""
    setattr(function, MARK, True)
    return function


class App:
    """One app over the database of a world.

    A subclass sets the class fields and marks its calls with ``@call``. A call answers with plain data (dicts, lists,
    strings, numbers) or raises ``ToolError``; whatever it wrote before it raised is undone by whoever called.

    Args:
        db: the world's database.
        now: the world's time.
        per_page: how many rows a page of a listing has.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    """What it is for, in one line."""
    schema: ClassVar[str]
    """SQL that makes its tables; every table has ``id INTEGER PRIMARY KEY AUTOINCREMENT``."""
    private: ClassVar[bool] = True
    """Whether its calls need a login."""
    ids: ClassVar[Mapping[str, str]] = {}
    """Which table an argument's number is of, e.g. ``{"message_id": "messages"}``: for errors that a test makes."""
    idle: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Columns, by table, that change when somebody only looks, as a message that is read is no longer unread."""
    keys: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Columns, by table, by which somebody knows a row whose number no call shows: to take such a row out and to put it
    in again changes nothing."""
    stray: ClassVar[tuple[str, Mapping[str, Any]]]
    """A call, with its arguments, that always changes something that no task asks for."""

    def __init__(self, db: Database, now: datetime, per_page: int) -> None:
        self.db, self.now, self.per_page = db, now, per_page

    @classmethod
    def calls(cls) -> Mapping[str, Callable[..., Any]]:
        """Its calls, unbound, by their full names such as ``mail_search``."""
        found = {f"{cls.name}_{name}": value for name, value in vars(cls).items() if getattr(value, MARK, False)}
        return {f"{cls.name}_login": cls.login, **found} if cls.private else found

    def login(self, password: Words) -> str:
        """Log in to this app. Everything else in it needs that.

        Args:
            password: of the user for this app; account_passwords lists them.
        """
        if password != self.db.value("SELECT password FROM passwords WHERE app = ?", self.name):
            raise ToolError(f"403 this is not the password for {self.name}")
        return f"logged in to {self.name}"

    def find(self, table: str, id: int, what: str) -> Row:
        """The row of a table with this number.

        Raises:
            ToolError: there is none (any more).
        """
        row = self.db.row(f"SELECT * FROM {table} WHERE id = ?", id)
        if row is None:
            raise ToolError(f"404 there is no {what} {id}")
        return row

    def paged(self, rows: Sequence[Any], page: int) -> dict[str, Any]:
        """One page of a listing, with how many there are.

        Raises:
            ToolError: there are fewer pages.
        """
        pages = max(1, math.ceil(len(rows) / self.per_page))
        if page > pages:
            raise ToolError(f"422 there is no page {page}: the last one is {pages}")
        begin = (page - 1) * self.per_page
        return {"items": list(rows[begin : begin + self.per_page]), "page": page, "pages": pages, "total": len(rows)}

    @property
    def stamp(self) -> str:
        """The world's time as text."""
        return self.now.isoformat(timespec="minutes")


def address(text: str) -> str:
    """An e-mail address as tables keep it: in small letters.

    Raises:
        ToolError: it is no address.
    """
    if not ADDRESS.fullmatch(text):
        raise ToolError(f"422 {text[:80]!r} is not an e-mail address")
    return text.lower()


def moment(text: str, what: str = "time") -> str:
    """A point in time as tables keep it, ``2025-05-14T09:30``.

    Raises:
        ToolError: it is no such point.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ToolError(f"422 {what} {text[:40]!r} is not a time such as 2025-05-14T09:30") from None
    if read.tzinfo is not None or len(text) < len("2025-05-14T09:30"):
        raise ToolError(f"422 {what} {text[:40]!r} is not a local time such as 2025-05-14T09:30")
    return read.isoformat(timespec="minutes")


def day(text: str, what: str = "date") -> str:
    """A day as tables keep it, ``2025-05-14``.

    Raises:
        ToolError: it is no day.
    """
    try:
        if len(text) != len("2025-05-14"):
            raise ValueError
        return datetime.strptime(text, "%Y-%m-%d").date().isoformat()
    except ValueError:
        raise ToolError(f"422 {what} {text[:40]!r} is not a day such as 2025-05-14") from None


def cents(amount: float, what: str = "amount") -> int:
    """An amount of money in hundredths, as tables keep it.

    Raises:
        ToolError: it has more than two decimals, or is less than 0.01.
    """
    hundredths = round(amount * 100)
    if abs(hundredths - amount * 100) > 1e-6:
        raise ToolError(f"422 {what} {amount} has more than two decimals")
    if hundredths < 1:
        raise ToolError(f"422 {what} {amount} is less than 0.01")
    return hundredths


def money(hundredths: int) -> float:
    """An amount as calls show it."""
    return hundredths / 100


def later(now: datetime, **span: float) -> str:
    """The world's time in a while, as tables keep it; arguments as of ``timedelta``."""
    return (now + timedelta(**span)).isoformat(timespec="minutes")
