"""What holds of an agent in a world beside the rows: the time, who is logged in, how much was asked of an app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from .app import LoginNeeded, TooManyCalls

MINUTE = timedelta(minutes=1)
CALL = timedelta(seconds=2)
"""What a call takes in the world's time."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How strict a world's apps are.

    Args:
        login: whether apps with private data want a password first.
        session_calls: how many calls of an app a login is good for; ``None``: any number.
        calls_per_minute: how many calls an app answers in a minute of the world's time; ``None``: any number.
        per_page: rows on a page of a listing.
    """

    login: bool = True
    session_calls: int | None = None
    calls_per_minute: int | None = None
    per_page: int = 10


@dataclass(frozen=True, slots=True)
class Situation:
    """The present of an agent. A value: every change makes another.

    Args:
        now: the world's time; a call takes ``CALL``.
        sessions: for every app that somebody is logged in to, how many calls were made since.
        recent: for every app, when it was called in the last minute.
    """

    now: datetime
    sessions: Mapping[str, int] = field(default_factory=dict)
    recent: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)

    def entered(self, app: str, rules: Rules, *, private: bool) -> Situation:
        """The situation after one more call of an app.

        Raises:
            LoginNeeded: nobody is logged in to it, or the session is over.
            TooManyCalls: it has been called too often in the last minute.
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
        """The situation after a login, which begins a new session."""
        return replace(self, sessions={**self.sessions, app: 0})

    def waited(self, seconds: int) -> Situation:
        """The situation after doing nothing for a while."""
        return replace(self, now=self.now + timedelta(seconds=seconds))
