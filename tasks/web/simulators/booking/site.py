"""``Booking``: places to stay, a booking in four steps, and a member's stays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ....rows.database import Row
from ..http import Response, number
from ..site import Refused, page
from .places import Places
from .rooms import STAYS, Dates, cost, dates_of, is_free, last_free, rooms_of

GUEST = ("guest_name", "email", "phone", "note")


class Booking(Places):
    """The booking site."""

    name = "booking"
    title = "Bed & Bridge"
    about = "Places to stay: search by city and dates, book a room, change and cancel bookings."
    keys: ClassVar[dict[str, tuple[str, ...]]] = {
        "booking_saved": ("account_id", "place_id"),
        "booking_alerts": ("account_id", "city"),
    }
    menu = (("places", "/places"), ("stays", "/stays"), ("saved", "/saved"), ("alerts", "/alerts"))
    stray = ("/alerts", {"city": "Nowhere", "most": "12"})

    # -- booking in four steps --------------------------------------------------------------------------------------

    @page("/book/dates", "POST", member=True)
    def choose_dates(self) -> Response:
        """First step, on the page of a place: choose dates and guests."""
        place = self.find("booking_places", number(self.form.get("place")), "place")
        form = self.form
        dates, wrong = dates_of(form.get("arrive"), form.get("leave"), form.get("guests", "1"), self.today)
        if dates is None:
            return self.go(f"/places/{place['id']}", wrong)
        kept = {"arrive": dates.arrive, "leave": dates.leave, "guests": dates.guests}
        self.keep(place=place["id"], room=None, guest=None, **kept)
        return self.go("/book/room")

    @page("/book/room", member=True)
    def room(self) -> Response:
        """Second step: list the free rooms."""
        place, dates = self._begun()
        rooms = [
            {**room, "total": cost(room, dates.nights)}
            for room in rooms_of(self.db, place["id"])
            if is_free(self.db, room, dates)
        ]
        return self.show("room.html", place=place, dates=dates, rooms=rooms, chosen=self.visit.kept.get("room", ""))

    @page("/book/room", "POST", member=True)
    def choose_room(self) -> Response:
        """Choose a room."""
        place, dates = self._begun()
        rooms = rooms_of(self.db, place["id"])
        chosen = next((room for room in rooms if str(room["id"]) == self.form.get("room")), None)
        if chosen is None or not is_free(self.db, chosen, dates):
            return self.go("/book/room", "Choose one of these rooms.")
        self.keep(room=chosen["id"])
        return self.go("/book/guest")

    @page("/book/guest", member=True)
    def guest(self) -> Response:
        """Third step: show the form for the guest."""
        self._with_room()
        values = self.visit.kept.get("guest") or dict.fromkeys(GUEST, "")
        return self.show("guest.html", values=values, wrong={})

    @page("/book/guest", "POST", member=True)
    def tell_guest(self) -> Response:
        """Enter the guest's details; errors appear at their fields."""
        self._with_room()
        values = {name: self.form.get(name).replace("\r\n", "\n") for name in GUEST}
        wrong = wrong_guest(values)
        if wrong:
            return self.show("guest.html", 400, values=values, wrong=wrong)
        self.keep(guest=values)
        return self.go("/book/check")

    @page("/book/check", member=True)
    def check(self) -> Response:
        """Fourth step: show the booking for confirmation."""
        place, dates, room, guest = self._complete()
        total = cost(room, dates.nights)
        return self.show("check.html", place=place, dates=dates, room=room, guest=guest, total=total)

    @page("/stays", "POST", member=True)
    def book(self) -> Response:
        """Book the room."""
        _, dates, room, guest = self._complete()
        if not is_free(self.db, room, dates):
            return self.go("/book/room", "This room is no longer available.")
        id = self.db.insert(
            "booking_stays",
            account_id=self.member["id"],
            room_id=room["id"],
            check_in=dates.arrive,
            check_out=dates.leave,
            guests=dates.guests,
            **guest,
            total=cost(room, dates.nights),
            status="booked",
            created_at=self.stamp,
        )
        self.keep(place=None, room=None, guest=None, arrive=None, leave=None, guests=None)
        return self.go(f"/stays/{id}", "Your room is booked.")

    # -- stays ------------------------------------------------------------------------------------------------------

    @page("/stays", member=True)
    def stays(self) -> Response:
        """List the member's stays, the latest first."""
        rows = self.db.rows(
            f"SELECT * FROM ({STAYS}) WHERE account_id = ? ORDER BY check_in DESC, id DESC", self.member["id"]
        )
        return self.show("stays.html", found=self.paged(rows))

    @page("/stays/{id:int}", member=True)
    def stay(self, id: int) -> Response:
        """Show one stay."""
        row = self._stay(id)
        return self.show("stay.html", stay=row, last=last_free(row))

    @page("/stays/{id:int}/cancel", member=True)
    def cancelling(self, id: int) -> Response:
        """Ask for confirmation of a cancellation."""
        row = self._stay(id)
        if refused := self._too_late(row):
            return self.go(f"/stays/{id}", refused)
        return self.show("cancelling.html", stay=row)

    @page("/stays/{id:int}/cancel", "POST", member=True)
    def cancel(self, id: int) -> Response:
        """Cancel a stay."""
        row = self._stay(id)
        if refused := self._too_late(row):
            return self.go(f"/stays/{id}", refused)
        self.db.update("booking_stays", id, status="cancelled")
        return self.go(f"/stays/{id}", "The booking was cancelled free of charge.")

    @page("/stays/{id:int}/change", member=True)
    def changing(self, id: int) -> Response:
        """Show the form for other dates."""
        row = self._stay(id)
        if refused := self._too_late(row):
            return self.go(f"/stays/{id}", refused)
        values = {"arrive": row["check_in"], "leave": row["check_out"], "guests": row["guests"]}
        return self.show("changing.html", stay=row, values=values, wrong="")

    @page("/stays/{id:int}/change", "POST", member=True)
    def change(self, id: int) -> Response:
        """Move a stay to other dates, in the same room."""
        row, form = self._stay(id), self.form
        if refused := self._too_late(row):
            return self.go(f"/stays/{id}", refused)
        dates, wrong = dates_of(form.get("arrive"), form.get("leave"), form.get("guests"), self.today)
        room = self.find("booking_rooms", row["room_id"], "room")
        if dates is not None and dates.guests > room["sleeps"]:
            wrong = f"This room sleeps {room['sleeps']}."
        elif dates is not None and not is_free(self.db, room, dates, besides=id):
            wrong = "The room is not available on all of these nights."
        if dates is None or wrong:
            values = {name: form.get(name) for name in ("arrive", "leave", "guests")}
            return self.show("changing.html", 400, stay=row, values=values, wrong=wrong)
        columns = {"check_in": dates.arrive, "check_out": dates.leave, "guests": dates.guests}
        self.db.update("booking_stays", id, **columns, total=cost(room, dates.nights))
        return self.go(f"/stays/{id}", "Your booking was changed.")

    # -- internals --------------------------------------------------------------------------------------------------

    def _begun(self) -> tuple[Row, Dates]:
        kept: Any = self.visit.kept
        if "place" not in kept:
            raise Refused("Choose a place and your dates first.", 409)
        return self.find("booking_places", kept["place"], "place"), Dates(kept["arrive"], kept["leave"], kept["guests"])

    def _with_room(self) -> tuple[Row, Dates, Row]:
        place, dates = self._begun()
        if "room" not in self.visit.kept:
            raise Refused("Choose a room first.", 409)
        return place, dates, self.find("booking_rooms", int(self.visit.kept["room"]), "room")

    def _complete(self) -> tuple[Row, Dates, Row, dict[str, str]]:
        place, dates, room = self._with_room()
        if "guest" not in self.visit.kept:
            raise Refused("Enter the guest first.", 409)
        return place, dates, room, self.visit.kept["guest"]

    def _stay(self, id: int) -> Row:
        row = self.find(f"({STAYS})", id, "booking")
        if row["account_id"] != self.member["id"]:
            raise Refused("This is someone else's booking.")
        return row

    def _too_late(self, row: Row) -> str:
        """Return why a stay can no longer be changed; empty if it can."""
        if row["status"] != "booked":
            return f"This booking is {row['status']}."
        if self.today.isoformat() > last_free(row):
            return "It is too late to change or cancel this booking."
        return ""


def wrong_guest(values: Mapping[str, str]) -> dict[str, str]:
    """Return the errors in a guest's details, by field."""
    wrong = {}
    if len(values["guest_name"].split()) < 2 or len(values["guest_name"]) > 80:
        wrong["guest_name"] = "Enter a first and last name."
    if not re.fullmatch(r"[^@\s]{1,60}@[^@\s]{1,60}\.[a-z]{2,10}", values["email"]):
        wrong["email"] = "This is not an email address."
    if not re.fullmatch(r"\+?[0-9][0-9 /()-]{5,24}", values["phone"]):
        wrong["phone"] = "Use only digits, spaces and dashes, at least six characters."
    if len(values["note"]) > 500:
        wrong["note"] = "At most 500 characters."
    return wrong
