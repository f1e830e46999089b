"""``Calendar``: events with guests, and invitations from others."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pydantic

from .....errors import ToolError
from ....rows.database import Row
from ..app import App, Body, Id, Maybe, Page, Words, address, call, day, moment

Addresses = Annotated[list[Words], pydantic.Field(max_length=20)]
Response = Literal["yes", "no", "maybe"]
EVENTS = """SELECT events.*, mine.response FROM events
    LEFT JOIN guests AS mine ON mine.event_id = events.id AND mine.email = ?1 WHERE status = 'confirmed' AND """
ORDER = " ORDER BY starts_at, events.id"


class Calendar(App):
    """The user's calendar: the user's own events and invitations from others."""

    name = "calendar"
    about = "the user's calendar: events, guests, invitations, conflicts"
    ids: ClassVar[dict[str, str]] = {"event_id": "events"}
    keys: ClassVar[dict[str, tuple[str, ...]]] = {"guests": ("event_id", "email")}
    stray = (
        "calendar_create",
        {"title": "Nothing at all", "starts_at": "2031-01-01T10:00", "ends_at": "2031-01-01T10:15"},
    )

    @call
    def list_events(self, since: Words, until: Words, page: Page = 1) -> dict[str, Any]:
        """List the events that start within a range of days, by start time. Cancelled events are left out.

        Args:
            since: first day, such as 2025-05-14.
            until: last day; it may be the same day.
            page: page of the results, starting at 1.
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
        """Search for events, by start time. An event must match every condition. Cancelled events are left out.

        Args:
            words: text to find in the title, the place or the notes.
            person: email address of the organizer or a guest.
            since: only events that start on this day or later, such as 2025-05-14.
            until: only events that start on this day or earlier.
            page: page of the results, starting at 1.
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
        """List the events that overlap a period. An event that ends exactly when the period starts does not overlap it.

        Args:
            starts_at: start of the period, such as 2025-05-14T09:30.
            ends_at: end of the period.
            page: page of the results, starting at 1.
        """
        start, end = _span(starts_at, ends_at)
        rows = self.db.rows(EVENTS + "starts_at < ?3 AND ends_at > ?2" + ORDER, self._me, start, end)
        return self.paged([self._brief(row) for row in rows], page)

    @call
    def get(self, event_id: Id) -> dict[str, Any]:
        """Show all details of an event, also a cancelled one, with its guests and their responses.

        Args:
            event_id: ID of the event.
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
        """Create an event organized by the user. Overlaps are allowed; call calendar_overlaps to check for conflicts.

        Args:
            title: title of the event.
            starts_at: start time, such as 2025-05-14T09:30.
            ends_at: end time.
            place: location of the event.
            notes: longer text.
            guests: email addresses of the people to invite.
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
        """Change an event that the user organizes. Fields that you omit keep their values, so a new start time does not
        move the end time. If the time changes, the responses of all guests are reset to "none".

        Args:
            event_id: ID of the event.
            title: title of the event.
            starts_at: start time, such as 2025-05-14T09:30.
            ends_at: end time.
            place: location of the event.
            notes: longer text.
        """
        row = self._own(event_id)
        start, end = _span(starts_at or row["starts_at"], ends_at or row["ends_at"])
        moved = (start, end) != (row["starts_at"], row["ends_at"])
        given = {"title": title, "place": place, "notes": notes, "starts_at": starts_at, "ends_at": ends_at}
        changed = {name: value for name, value in given.items() if value is not None}
        if not changed:
            raise ToolError("422 specify at least one field to change")
        changed |= {"starts_at": start, "ends_at": end}
        self.db.update("events", event_id, **changed)
        asked = self.db.rows("SELECT id FROM guests WHERE event_id = ? AND response != 'none'", event_id)
        for guest in asked if moved else ():
            self.db.update("guests", guest["id"], response="none")
        return {"event_id": event_id, **changed}

    @call
    def cancel(self, event_id: Id) -> dict[str, Any]:
        """Cancel an event that the user organizes. It is kept, but lists no longer show it.

        Args:
            event_id: ID of the event.
        """
        self._own(event_id)
        self.db.update("events", event_id, status="cancelled")
        return {"event_id": event_id, "status": "cancelled"}

    @call
    def delete(self, event_id: Id) -> str:
        """Delete a cancelled event and its guest list permanently.

        Args:
            event_id: ID of the event, which must be cancelled.
        """
        if self.find("events", event_id, "event")["status"] != "cancelled":
            raise ToolError(f"409 event {event_id} is not cancelled: cancel it first")
        for guest in self.db.rows("SELECT id FROM guests WHERE event_id = ?", event_id):
            self.db.delete("guests", guest["id"])
        self.db.delete("events", event_id)
        return f"deleted event {event_id}"

    @call
    def invite(self, event_id: Id, email: Words) -> dict[str, Any]:
        """Invite someone to an event that the user organizes.

        Args:
            event_id: ID of the event.
            email: email address of the guest.
        """
        self._own(event_id)
        address = self._address(email)
        if self.db.row("SELECT id FROM guests WHERE event_id = ? AND email = ?", event_id, address):
            raise ToolError(f"409 {address} is already invited to event {event_id}")
        self.db.insert("guests", event_id=event_id, email=address, response="none")
        return {"event_id": event_id, "email": address}

    @call
    def uninvite(self, event_id: Id, email: Words) -> dict[str, Any]:
        """Remove a guest from an event that the user organizes.

        Args:
            event_id: ID of the event.
            email: email address of the guest.
        """
        self._own(event_id)
        found = self.db.row("SELECT id FROM guests WHERE event_id = ? AND email = ?", event_id, email.lower())
        if found is None:
            raise ToolError(f"404 {email!r} is not invited to event {event_id}")
        self.db.delete("guests", found["id"])
        return {"event_id": event_id, "email": email.lower()}

    @call
    def respond(self, event_id: Id, response: Response) -> dict[str, Any]:
        """Respond to someone else's invitation. A response can be changed later.

        Args:
            event_id: ID of the event.
            response: whether the user will attend.
        """
        row = self.find("events", event_id, "event")
        found = self.db.row("SELECT id FROM guests WHERE event_id = ? AND email = ?", event_id, self._me)
        if found is None:
            raise ToolError(f"403 event {event_id} is the user's own event: it needs no response")
        if row["status"] == "cancelled":
            raise ToolError(f"409 event {event_id} is cancelled")
        self.db.update("guests", found["id"], response=response)
        return {"event_id": event_id, "response": response}

    def _own(self, event_id: int) -> Row:
        row = self.find("events", event_id, "event")
        if row["organizer"] != self._me:
            raise ToolError(f"403 event {event_id} belongs to {row['organizer']}: only the organizer can change it")
        if row["status"] == "cancelled":
            raise ToolError(f"409 event {event_id} is cancelled")
        return row

    def _address(self, email: str) -> str:
        guest = address(email)
        if guest == self._me:
            raise ToolError("422 the organizer cannot be a guest")
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
        raise ToolError(f"422 an event that starts at {start} cannot end at {end}")
    return start, end
