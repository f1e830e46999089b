"""``World``: the apps of one user, ready for calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Self

from ....errors import ToolError
from ...rows.database import Database
from ...rows.simulator import Simulation
from .app import App, LoginNeeded, TooManyCalls
from .situation import Rules, Situation

Apps = tuple[type[App], ...]


class World(Simulation[App]):
    """Live apps over one database.

    A call that fails changes neither a row nor the situation. A world knows every change since its creation, and a
    fork has a copy of the database.

    Args:
        db: rows of the apps.
        situation: present state of the agent.
        rules: strictness of the apps.
        apps: classes of the apps.
    """

    def __init__(self, db: Database, situation: Situation, rules: Rules, apps: Apps) -> None:
        super().__init__(db, apps)
        self.situation, self.rules = situation, rules
        self._calls = calls_of(apps)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Make a call and return its answer as plain data.

        Args:
            name: name of the call, such as ``mail_search``.
            arguments: arguments by name, of the types in the signature of the call.

        Raises:
            ToolError: the app refuses the call; the message says why.
        """
        if name not in self._calls:
            raise ToolError(f"404 call {name[:40]!r} does not exist")
        kind, function = self._calls[name]
        login = name == f"{kind.name}_login"
        situation = self.situation.entered(kind.name, self.rules, private=kind.private and not login)
        app = kind(self.db, situation.now, self.rules.per_page)
        try:
            with self.db.whole():
                result = function(app, **arguments)
        except (UnicodeEncodeError, OverflowError):
            raise ToolError("422 an argument contains characters or numbers that the app cannot store") from None
        if login:
            situation = situation.logged_in(kind.name)
        elif name == "account_wait":
            situation = situation.waited(int(arguments["seconds"]))
        self.situation = situation
        return result

    @property
    def now(self) -> datetime:
        """Time of the world."""
        return self.situation.now

    def wanted(self, name: str) -> tuple[str, dict[str, Any]] | None:
        """Return the call that must precede this one, a login or a wait; ``None`` if there is none."""
        kind, _ = self._calls[name]
        try:
            self.situation.entered(kind.name, self.rules, private=kind.private and name != f"{kind.name}_login")
        except LoginNeeded as need:
            password = self.db.value("SELECT password FROM passwords WHERE app = ?", need.app)
            return f"{need.app}_login", {"password": password}
        except TooManyCalls as busy:
            return "account_wait", {"seconds": busy.seconds}
        return None

    def fork(self) -> Self:
        """Return an independent world in the same state."""
        return type(self)(self.db.fork(), self.situation, self.rules, self.simulators)


@lru_cache(maxsize=64)
def calls_of(apps: Apps) -> Mapping[str, tuple[type[App], Callable[..., Any]]]:
    """Return every call of some apps by its full name, with its app."""
    return {name: (app, function) for app in apps for name, function in app.calls().items()}
