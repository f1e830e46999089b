"""Pages for finding a place to stay: search, places, nights, reviews, saved places and price alerts."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from ....rows.database import Row
from ..http import Response, number
from ..site import Site, page
from .rooms import (
    AMENITIES,
    PLACES,
    SORTS,
    Dates,
    dates_of,
    day_of,
    left,
    offers,
    rooms_of,
    taken,
)

SHOWN = 60
"""Nights for which the site shows what is free."""


def hundredths(text: str) -> int | None:
    """Parse an amount of money into hundredths; return ``None`` for anything else."""
    try:
        cents = round(float(text) * 100)
    except (ValueError, OverflowError):
        return None
    return cents if 0 < cents < 10**9 else None


class Places(Site):
    """The public pages, and a member's own lists."""

    @property
    def today(self) -> date:
        """Today's date in the world."""
        return self.now.date()

    @property
    def cities(self) -> list[str]:
        """Every city with a place."""
        return [row["city"] for row in self.db.rows("SELECT DISTINCT city FROM booking_places ORDER BY city")]

    @page("/")
    def front(self) -> Response:
        """Show the search form."""
        return self.show("front.html", **self._searching())

    @page("/places")
    def places(self) -> Response:
        """List the places that match the query."""
        query, wrong = self.query, ""
        dates, wrong_dates = self._asked()
        most = hundredths(query.get("max"))
        if query.get("max") and most is None:
            wrong = f"{query.get('max')[:20]!r} is not an amount."
        wanted, stars = set(query.all("amenity")), number(query.get("stars"))
        rows = self.db.rows(
            f"""SELECT * FROM ({PLACES}) WHERE (city = ?1 OR ?1 = '') AND stars >= ?2
                AND (instr(lower(name), lower(?3)) OR ?3 = '')""",
            query.get("city"),
            stars,
            query.get("q"),
        )
        rows = [row for row in rows if wanted <= set(row["amenities"].split(", "))]
        nights = len(dates.nights) if dates else 1
        rows = [row for row in offers(self.db, rows, dates) if most is None or row["asked"] <= most * nights]
        sort = query.get("sort") if query.get("sort") in SORTS else "price"
        down = -1 if sort in ("score", "stars") else 1
        rows.sort(key=lambda row: (row["name"] if sort == "name" else down * row[SORTS[sort]], row["name"]))
        values = {**self._searching(), "wrong_dates": wrong_dates, "wrong": wrong, "sort": sort, "stay": dates}
        return self.show("places.html", found=self.paged(rows), **values)

    @page("/places/{id:int}")
    def place(self, id: int) -> Response:
        """Show one place with its rooms."""
        row = self.find(f"({PLACES})", id, "place")
        return self.show("place.html", place=row, rooms=rooms_of(self.db, id))

    @page("/places/{id:int}/reviews")
    def reviews(self, id: int) -> Response:
        """List the reviews of a place."""
        place = self.find("booking_places", id, "place")
        rows = self.db.rows("SELECT * FROM booking_reviews WHERE place_id = ? ORDER BY created_at DESC, id DESC", id)
        return self.show("reviews.html", place=place, found=self.paged(rows))

    @page("/places/{id:int}/nights")
    def nights(self, id: int) -> Response:
        """List what is free in each night, from a day on."""
        place, asked = self.find("booking_places", id, "place"), self.query.get("since")
        since, wrong = day_of(asked) or self.today, ""
        if asked and day_of(asked) is None:
            wrong = "Enter the date as 2025-05-14."
        since = min(max(since, self.today), self.today + timedelta(days=SHOWN))
        rooms = rooms_of(self.db, id)
        gone = {room["id"]: taken(self.db, room["id"]) for room in rooms}
        rows = []
        for offset in range((self.today - since).days + SHOWN + 1):
            night = (since + timedelta(days=offset)).isoformat()
            rows.append((night, [left(room, night, gone[room["id"]]) for room in rooms]))
        return self.show("nights.html", place=place, rooms=rooms, found=self.paged(rows), wrong=wrong)

    @page("/places/{id:int}/reviews", "POST", member=True)
    def review(self, id: int) -> Response:
        """Write a review of a place where the member has stayed, once."""
        self.find("booking_places", id, "place")
        points, text, me = self.form.get("points"), self.form.get("text"), self.member
        stayed = self.db.row(
            """SELECT booking_stays.id FROM booking_stays JOIN booking_rooms ON booking_rooms.id = room_id
               WHERE account_id = ? AND place_id = ? AND status = 'stayed'""",
            me["id"],
            id,
        )
        if stayed is None:
            return self.go(f"/places/{id}/reviews", "Only guests who have stayed here can write a review.")
        if points not in [str(one) for one in range(1, 11)]:
            return self.go(f"/places/{id}/reviews", "Choose between 1 and 10 points.")
        if self.db.row("SELECT id FROM booking_reviews WHERE place_id = ? AND author = ?", id, me["name"]):
            return self.go(f"/places/{id}/reviews", "You have already reviewed this place.")
        columns = {"place_id": id, "author": me["name"], "points": int(points), "text": text[:2000]}
        self.db.insert("booking_reviews", **columns, created_at=self.stamp)
        return self.go(f"/places/{id}/reviews", "Thank you for your review.")

    # -- a member's lists -------------------------------------------------------------------------------------------

    @page("/saved", member=True)
    def saved(self) -> Response:
        """List the saved places."""
        mine = "SELECT place_id FROM booking_saved WHERE account_id = ?"
        rows = self.db.rows(f"SELECT * FROM ({PLACES}) WHERE id IN ({mine}) ORDER BY name", self.member["id"])
        return self.show("saved.html", found=self.paged(rows))

    @page("/saved", "POST", member=True)
    def set_saved(self) -> Response:
        """Save a place, or remove it from the list."""
        place = self.find("booking_places", number(self.form.get("place")), "place")
        mine = (self.member["id"], place["id"])
        row = self.db.row("SELECT * FROM booking_saved WHERE account_id = ? AND place_id = ?", *mine)
        if self.form.get("how") == "remove":
            if row is not None:
                self.db.delete("booking_saved", row["id"])
            return self.go("/saved", f"{place['name']} was removed from your list.")
        if row is None:
            self.db.insert("booking_saved", account_id=mine[0], place_id=mine[1])
        return self.go("/saved", f"{place['name']} was added to your list.")

    @page("/alerts", member=True)
    def alerts(self) -> Response:
        """List the price alerts."""
        return self.show("alerts.html", found=self.paged(self._alerts()), city="", most="", wrong="")

    @page("/alerts", "POST", member=True)
    def add_alert(self) -> Response:
        """Add a price alert for a city."""
        city, most = self.form.get("city")[:80], hundredths(self.form.get("most"))
        wrong = "" if city else "Enter a city."
        wrong = wrong or ("" if most is not None else "Enter an amount, such as 80.")
        known = [row["city"] for row in self._alerts()]
        wrong = wrong or ("You already have an alert for this city." if city in known else "")
        if wrong:
            kept = {"city": city, "most": self.form.get("most")[:20]}
            return self.show("alerts.html", 400, found=self.paged(self._alerts()), wrong=wrong, **kept)
        self.db.insert("booking_alerts", account_id=self.member["id"], city=city, most=most)
        return self.go("/alerts", f"We will notify you when a night in {city} costs less.")

    @page("/alerts/remove", "POST", member=True)
    def remove_alert(self) -> Response:
        """Remove a price alert."""
        row = next((one for one in self._alerts() if str(one["id"]) == self.form.get("alert")), None)
        if row is not None:
            self.db.delete("booking_alerts", row["id"])
        return self.go("/alerts", "You no longer have an alert for that city.")

    # -- internals --------------------------------------------------------------------------------------------------

    def _alerts(self) -> list[Row]:
        return self.db.rows("SELECT * FROM booking_alerts WHERE account_id = ? ORDER BY city, id", self.member["id"])

    def _searching(self) -> dict[str, Any]:
        return {"cities": self.cities, "amenities": AMENITIES, "wrong_dates": "", "wrong": "", "sort": "price"}

    def _asked(self) -> tuple[Dates | None, str]:
        """Return the dates in the query, if there are any, and an error message."""
        arrive, leave = self.query.get("arrive"), self.query.get("leave")
        if not (arrive or leave):
            return None, ""
        return dates_of(arrive, leave, self.query.get("guests", "1") or "1", self.today)
