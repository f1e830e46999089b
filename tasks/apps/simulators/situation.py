"""The state of an agent in a world besides the rows: time, logins, and recent calls of each app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from .app import LoginNeeded, TooManyCalls

MINUTE = timedelta(minutes=1)
CALL = timedelta(seconds=2)
"""Duration of a call in the time of the world."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The strictness of a world's apps.

    Args:
        login: whether apps with private data require a password.
        session_calls: limit on the calls of an app after a login; ``None`` for no limit.
        calls_per_minute: limit on the calls of an app in a minute of the world's time; ``None`` for no limit.
        per_page: rows on a page of a listing.
    """

    login: bool = True
    session_calls: int | None = None
    calls_per_minute: int | None = None
    per_page: int = 10


@dataclass(frozen=True, slots=True)
class Situation:
    """The present state of an agent. It is immutable: methods return a new one.

    Args:
        now: time of the world; a call takes ``CALL``.
        sessions: number of calls since the login, by app that the agent is logged in to.
        recent: times of the calls in the last minute, by app.
    """

    now: datetime
    sessions: Mapping[str, int] = field(default_factory=dict)
    recent: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)

    def entered(self, app: str, rules: Rules, *, private: bool) -> Situation:
        """Return the situation after one more call of an app.

        Raises:
            LoginNeeded: the agent is not logged in to the app, or the session has ended.
            TooManyCalls: the app has had too many calls in the last minute.
        """
        sessions = self.sessions
        if private and rules.login:
            made = sessions.get(app)
            if made is None or (rules.session_calls is not None and made >= rules.session_calls):
                raise LoginNeeded(app)
            sessions = {**sessions, app: made + 1}
        recent = self.recent
        if rules.calls_per_minute is not None:
            since = tuple(at for at in recent.get(app, ()) if at > self.now - MINUTE)
            if len(since) >= rules.calls_per_minute:
                raise TooManyCalls(app, int((since[0] + MINUTE - self.now).total_seconds()))
            recent = {**recent, app: (*since, self.now)}
        return Situation(self.now + CALL, sessions, recent)

    def logged_in(self, app: str) -> Situation:
        """Return the situation after a login, which starts a new session."""
        return replace(self, sessions={**self.sessions, app: 0})

    def waited(self, seconds: int) -> Situation:
        """Return the situation after waiting for some seconds."""
        return replace(self, now=self.now + timedelta(seconds=seconds))
