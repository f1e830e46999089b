"""``Account``: the user's profile, the passwords for the apps, and the time."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic

from ..app import App, call

Seconds = Annotated[int, pydantic.Field(ge=1, le=3600)]


class Account(App):
    """The user's own account. It requires no login and is read-only."""

    name = "account"
    about = "the user's profile, the passwords for the other apps, and the current time"
    private = False

    @call
    def profile(self) -> dict[str, Any]:
        """Show the user's name, email address, phone number, city, birthday and company."""
        row = self.db.row("SELECT * FROM profile")
        assert row is not None
        return {name: value for name, value in row.items() if name != "id"}

    @call
    def passwords(self) -> dict[str, str]:
        """Show the user's password for each app."""
        return {row["app"]: row["password"] for row in self.db.rows("SELECT app, password FROM passwords ORDER BY app")}

    @call
    def time(self) -> dict[str, str]:
        """Show the current date, day of the week and time."""
        return {"now": self.stamp, "weekday": f"{self.now:%A}"}

    @call
    def wait(self, seconds: Seconds) -> str:
        """Wait, for instance until an app accepts calls again.

        Args:
            seconds: number of seconds to wait.
        """
        return f"waited {seconds} seconds"
