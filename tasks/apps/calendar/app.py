"""``Calendar``: events with guests, and invitations by others."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pydantic

from ....errors import ToolError
from ...rows.database import Row
from ..world.app import App, Body, Id, Maybe, Page, Words, address, call, day, moment

Addresses = Annotated[list[Words], pydantic.Field(max_length=20)]
Response = Literal["yes", "no", "maybe"]
EVENTS = """SELECT events.*, mine.response FROM events
    LEFT JOIN guests AS mine ON mine.event_id = events.id AND mine.email = ?1 WHERE status = 'confirmed' AND """
ORDER = " ORDER BY starts_at, events.id"


class Calendar(App):
    """The user's calendar: what the user organizes, and what others invite the user to."""

    name = "calendar"
    about = "the calendar: events, guests, invitations, what overlaps"
    ids: ClassVar[dict[str, str]] = {"event_id": "events"}
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"guests": ("event_id", "email")}
    stray = (
        "calendar_create",
        {"title": "Nothing at all", "starts_at": "2031-01-01T10:00", "ends_at": "2031-01-01T10:15"},
    )
    schema: ClassVar[str] = """
        CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT, place TEXT, starts_at TEXT,
            ends_at TEXT, organizer TEXT, notes TEXT, status TEXT, created_at TEXT);
        CREATE INDEX events_by_start ON events (starts_at);
        CREATE TABLE guests (id INTEGER PRIMARY KEY AUTOINCREMENT, event_id INTEGER, email TEXT, response TEXT,
            UNIQUE (event_id, email));
    """

    @call
    def list_events(self, since: Words, until: Words, page: Page = 1) -> dict[str, Any]:
        """The events that begin on some days, by their beginnings; what is cancelled is left out.

        Args:
            since: the first day, such as 2025-05-14.
            until: the last day, which may be the same.
            page: of the listing.
        """
        first, last = day(since, "since"), day(until, "until")
        if last < first:
            raise ToolError(f"422 until {last} is before since {first}")
        rows = self.db.rows(EVENTS + "substr(starts_at, 1, 10) BETWEEN ?2 AND ?3" + ORDER, self._me, first, last)
        return self.paged([self._brief(row) for row in rows], page)

    @call
    def search(
        self, words: Maybe = "", person: Maybe = "", since: Maybe = "", until: Maybe = "", page: Page = 1
    ) -> dict[str, Any]:
        """Find events, by their beginnings; several conditions must all hold. What is cancelled is left out.

        Args:
            words: stand in the title, the place or the notes.
            person: the e-mail address of the organizer or of a guest.
            since: the day on which they begin at the earliest, such as 2025-05-14.
            until: the day on which they begin at the latest.
            page: of the listing.
        """
        rows = self.db.rows(
            EVENTS
            + """(?2 = '' OR instr(lower(title || char(10) || place || char(10) || notes), lower(?2)))
            AND (?3 = '' OR organizer = lower(?3)
                 OR EXISTS (SELECT 1 FROM guests WHERE event_id = events.id AND email = lower(?3)))
            AND (?4 = '' OR substr(starts_at, 1, 10) >= ?4) AND (?5 = '' OR substr(starts_at, 1, 10) <= ?5)"""
            + ORDER,
            self._me,
            words,
            person,
            since and day(since, "since"),
            until and day(until, "until"),
        )
        return self.paged([self._brief(row) for row in rows], page)

    @call
    def overlaps(self, starts_at: Words, ends_at: Words, page: Page = 1) -> dict[str, Any]:
        """The events of which a part lies within a time; one that ends as another begins does not overlap it.

        Args:
            starts_at: when the time begins, such as 2025-05-14T09:30.
            ends_at: when it ends.
            page: of the listing.
        """
        start, end = _span(starts_at, ends_at)
        rows = self.db.rows(EVENTS + "starts_at < ?3 AND ends_at > ?2" + ORDER, self._me, start, end)
        return self.paged([self._brief(row) for row in rows], page)

    @call
    def get(self, event_id: Id) -> dict[str, Any]:
        """Everything about an event, with its guests and what they have answered; also of one that is cancelled.

        Args:
            event_id: which.
        """
        row = self.find("events", event_id, "event")
        guests = self.db.rows("SELECT email, response FROM guests WHERE event_id = ? ORDER BY email", event_id)
        mine = next((guest["response"] for guest in guests if guest["email"] == self._me), None)
        rest = {"notes": row["notes"], "status": row["status"], "guests": guests}
        return {**self._brief({**row, "response": mine}), **rest}

    @call
    def create(
        self,
        title: Words,
        starts_at: Words,
        ends_at: Words,
        place: Maybe = "",
        notes: Body = "",
        guests: Addresses | None = None,
    ) -> dict[str, Any]:
        """Make an event of the user's own. It may overlap others: ask calendar_overlaps where that matters.

        Args:
            title: in a line.
            starts_at: when it begins, such as 2025-05-14T09:30.
            ends_at: when it ends.
            place: where it is.
            notes: a longer text.
            guests: e-mail addresses of those who are invited.
        """
        start, end = _span(starts_at, ends_at)
        invited = sorted({self._address(email) for email in guests or ()})
        about = {"title": title, "place": place, "notes": notes, "starts_at": start, "ends_at": end}
        id = self.db.insert("events", **about, organizer=self._me, status="confirmed", created_at=self.stamp)
        for email in invited:
            self.db.insert("guests", event_id=id, email=email, response="none")
        return {"event_id": id, "guests": invited}

    @call
    def update(
        self,
        event_id: Id,
        title: Words | None = None,
        starts_at: Words | None = None,
        ends_at: Words | None = None,
        place: Maybe | None = None,
        notes: Body | None = None,
    ) -> dict[str, Any]:
        """Change an event that the user organizes; what is left out stays, also the end when the beginning changes.
        When its time changes, its guests are asked again: their answers are none then.

        Args:
            event_id: which.
            title: in a line.
            starts_at: when it begins, such as 2025-05-14T09:30.
            ends_at: when it ends.
            place: where it is.
            notes: a longer text.
        """
        row = self._own(event_id)
        start, end = _span(starts_at or row["starts_at"], ends_at or row["ends_at"])
        moved = (start, end) != (row["starts_at"], row["ends_at"])
        given = {"title": title, "place": place, "notes": notes, "starts_at": starts_at, "ends_at": ends_at}
        changed = {name: value for name, value in given.items() if value is not None}
        if not changed:
            raise ToolError("422 say what is to be changed")
        changed |= {"starts_at": start, "ends_at": end}
        self.db.update("events", event_id, **changed)
        asked = self.db.rows("SELECT id FROM guests WHERE event_id = ? AND response != 'none'", event_id)
        for guest in asked if moved else ():
            self.db.update("guests", guest["id"], response="none")
        return {"event_id": event_id, **changed}

    @call
    def cancel(self, event_id: Id) -> dict[str, Any]:
        """Call off an event that the user organizes; it is kept, but no listing shows it any more.

        Args:
            event_id: which.
        """
        self._own(event_id)
        self.db.update("events", event_id, status="cancelled")
        return {"event_id": event_id, "status": "cancelled"}

    @call
    def delete(self, event_id: Id) -> str:
        """Remove a cancelled event for ever, with its guests.

        Args:
            event_id: which; it must be cancelled.
        """
        if self.find("events", event_id, "event")["status"] != "cancelled":
            raise ToolError(f"409 event {event_id} is not cancelled: cancel it first")
        for guest in self.db.rows("SELECT id FROM guests WHERE event_id = ?", event_id):
            self.db.delete("guests", guest["id"])
        self.db.delete("events", event_id)
        return f"event {event_id} is deleted"

    @call
    def invite(self, event_id: Id, email: Words) -> dict[str, Any]:
        """Invite somebody to an event that the user organizes.

        Args:
            event_id: which.
            email: the address of the guest.
        """
        self._own(event_id)
        address = self._address(email)
        if self.db.row("SELECT id FROM guests WHERE event_id = ? AND email = ?", event_id, address):
            raise ToolError(f"409 {address} is invited to event {event_id} already")
        self.db.insert("guests", event_id=event_id, email=address, response="none")
        return {"event_id": event_id, "email": address}

    @call
    def uninvite(self, event_id: Id, email: Words) -> dict[str, Any]:
        """Take a guest off an event that the user organizes.

        Args:
            event_id: which.
            email: the address of the guest.
        """
        self._own(event_id)
        found = self.db.row("SELECT id FROM guests WHERE event_id = ? AND email = ?", event_id, email.lower())
        if found is None:
            raise ToolError(f"404 {email!r} is not invited to event {event_id}")
        self.db.delete("guests", found["id"])
        return {"event_id": event_id, "email": email.lower()}

    @call
    def respond(self, event_id: Id, response: Response) -> dict[str, Any]:
        """Answer an invitation by somebody else; an answer that was given may be changed.

        Args:
            event_id: which.
            response: whether the user comes.
        """
        row = self.find("events", event_id, "event")
        found = self.db.row("SELECT id FROM guests WHERE event_id = ? AND email = ?", event_id, self._me)
        if found is None:
            raise ToolError(f"403 event {event_id} is the user's own: there is nothing to answer")
        if row["status"] == "cancelled":
            raise ToolError(f"409 event {event_id} is cancelled")
        self.db.update("guests", found["id"], response=response)
        return {"event_id": event_id, "response": response}

    def _own(self, event_id: int) -> Row:
        row = self.find("events", event_id, "event")
        if row["organizer"] != self._me:
            raise ToolError(f"403 event {event_id} is organized by {row['organizer']}: only they can change it")
        if row["status"] == "cancelled":
            raise ToolError(f"409 event {event_id} is cancelled")
        return row

    def _address(self, email: str) -> str:
        guest = address(email)
        if guest == self._me:
            raise ToolError("422 the organizer is not a guest")
        return guest

    @property
    def _me(self) -> str:
        return str(self.db.value("SELECT email FROM profile"))

    def _brief(self, row: Row) -> dict[str, Any]:
        shown = {name: row[name] for name in ("title", "place", "starts_at", "ends_at", "organizer")}
        own = row["organizer"] == self._me
        return {"event_id": row["id"], **shown, "my_response": "organizer" if own else row["response"]}


def _span(starts_at: str, ends_at: str) -> tuple[str, str]:
    start, end = moment(starts_at, "starts_at"), moment(ends_at, "ends_at")
    if end <= start:
        raise ToolError(f"422 an event that begins at {start} cannot end at {end}")
    return start, end
