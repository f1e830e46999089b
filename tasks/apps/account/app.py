"""``Account``: who the user is, the passwords of the apps, and the time."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pydantic

from ..world.app import App, call

Seconds = Annotated[int, pydantic.Field(ge=1, le=3600)]


class Account(App):
    """The user's own account. It needs no login, and nothing in it can be changed."""

    name = "account"
    about = "who the user is, the passwords of the other apps, and the time"
    private = False
    schema: ClassVar[str] = """
        CREATE TABLE profile (id INTEGER PRIMARY KEY AUTOINCREMENT,
            first_name TEXT, last_name TEXT, email TEXT, phone TEXT, city TEXT, birthday TEXT, company TEXT);
        CREATE TABLE passwords (id INTEGER PRIMARY KEY AUTOINCREMENT, app TEXT UNIQUE, password TEXT);
    """

    @call
    def profile(self) -> dict[str, Any]:
        """The user's name, e-mail address, telephone number, city, birthday and company."""
        row = self.db.row("SELECT * FROM profile")
        assert row is not None
        return {name: value for name, value in row.items() if name != "id"}

    @call
    def passwords(self) -> dict[str, str]:
        """The user's passwords, by app."""
        return {row["app"]: row["password"] for row in self.db.rows("SELECT app, password FROM passwords ORDER BY app")}

    @call
    def time(self) -> dict[str, str]:
        """The date, the day of the week and the time."""
        return {"now": self.stamp, "weekday": f"{self.now:%A}"}

    @call
    def wait(self, seconds: Seconds) -> str:
        """Do nothing for a while, for instance until an app answers again.

        Args:
            seconds: of the world's time.
        """
        return f"waited {seconds} seconds"
