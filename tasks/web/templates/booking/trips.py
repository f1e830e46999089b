"""Tasks of the booking site: booking, moving and cancelling stays."""

from __future__ import annotations

from datetime import timedelta

from ....rows.database import Row
from ....rows.expected import Evidence, Must, Number, Refusal, Text, updated
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.booking.rooms import PLACES, Dates, cost, is_free, last_free, offers, rooms_of
from ..walk import Walk
from .ways import book, booked, guest_details, mine, moved, open_place, open_stay, said, search, some_dates, somebody


@template("booking", kind="checkout")
def booking_book(scene: Scene) -> TaskDraft:
    """Book a room of a given type, at higher levels the cheapest free room."""
    place, dates = scene.row("SELECT * FROM booking_places"), some_dates(scene)
    free = [room for room in rooms_of(scene.db, place["id"]) if is_free(scene.db, room, dates)]
    free.sort(key=lambda room: cost(room, dates.nights))
    scene.need(len(free) > 1 and cost(free[0], dates.nights) < cost(free[1], dates.nights))
    cheapest = scene.level > 2
    room, guest = free[0] if cheapest else scene.pick(free), somebody(scene)
    which = "the cheapest available room" if cheapest else f"a {room['name']}"
    prompt = f"Book {which} at the {place['name']} on the booking site, {said(dates)}, {guest_details(guest)}."

    def solve(walk: Walk) -> None:
        open_place(walk, place["name"])
        book(walk, dates, "" if cheapest else room["name"], guest)
        walk.answer()

    return TaskDraft(prompt, solve, must=(booked(scene.db, room, dates, guest),))


@template("booking", kind="refusal")
def booking_cancel(scene: Scene) -> TaskDraft:
    """Cancel a stay. Shortly before it, the site refuses; the evidence is the last day on which it did not."""
    stay = scene.pick(mine(scene))
    today, last = scene.cast.day(0), last_free(stay)
    prompt = (
        f"Cancel my booking at the {stay['place']}. If that is no longer possible, say so and give the last day on"
        " which it could have been cancelled."
    )

    def solve(walk: Walk) -> None:
        open_stay(walk, stay["place"])
        until = walk.fact(walk.word("free_until"))
        walk.click(walk.word("cancel_stay"))
        if today > until:
            walk.refuse(until)
        else:
            walk.click(walk.word("really"))
            walk.answer()

    if today > last:
        return TaskDraft(prompt, solve, refusal=Refusal("not_possible", Evidence((last,))), secrets=(last,))
    return TaskDraft(prompt, solve, must=(_cancelled(stay),))


@template("booking", kind="form")
def booking_move(scene: Scene) -> TaskDraft:
    """Move a stay to other dates, at higher levels also with other guests, and report the new price."""
    stay = scene.pick([row for row in mine(scene) if last_free(row) >= scene.cast.day(0)])
    room = scene.row("SELECT * FROM booking_rooms WHERE id = ?", stay["room_id"])
    days = scene.rng.randint(1, 6)
    dates = moved(stay, days)
    if scene.level > 2:
        dates = Dates(dates.arrive, dates.leave, scene.rng.randint(1, room["sleeps"]))
    scene.need(is_free(scene.db, room, dates, besides=stay["id"]))
    total = cost(room, dates.nights)
    later = "day" if days == 1 else "days"
    people = f" and a total of {dates.guests} guest(s)" if scene.level > 2 else ""
    prompt = (
        f"Move my booking at the {stay['place']} so that it starts {days} {later} later, with the same number of nights"
        f"{people}. What does it then cost in total?"
    )
    columns = {"check_in": dates.arrive, "check_out": dates.leave, "guests": dates.guests, "total": total}
    changed = {name: value for name, value in columns.items() if value != stay[name]}

    def solve(walk: Walk) -> None:
        open_stay(walk, stay["place"])
        now = _read(walk)
        new = moved({"check_in": now.arrive, "check_out": now.leave, "guests": now.guests}, days)
        walk.click(walk.word("change_stay"))
        walk.fill(walk.word("arrive"), new.arrive)
        walk.fill(walk.word("leave"), new.leave)
        walk.fill(walk.word("guests"), str(dates.guests if scene.level > 2 else now.guests))
        walk.click(walk.word("save"))
        walk.answer(walk.fact(walk.word("total")))

    must = (updated("booking_stays", stay["id"], "moved", **changed),)
    return TaskDraft(prompt, solve, must=must, answer=Number(total / 100))


@template("booking", kind="moderation")
def booking_double(scene: Scene) -> TaskDraft:
    """Cancel the more expensive one of two stays at the same time."""
    stay = scene.pick([row for row in mine(scene) if last_free(row) >= scene.cast.day(0)])
    first = Dates(stay["check_in"], stay["check_out"], 1).nights[-1]
    dates = Dates(first.isoformat(), (first + timedelta(days=scene.rng.randint(1, 3))).isoformat(), stay["guests"])
    used = {row["place_id"] for row in mine(scene)}
    place = scene.pick([row for row in scene.db.rows("SELECT * FROM booking_places") if row["id"] not in used])
    room = scene.pick(rooms_of(scene.db, place["id"]))
    scene.need(is_free(scene.db, room, dates))
    columns = {name: stay[name] for name in ("account_id", "guests", "guest_name", "email", "phone", "note", "status")}
    total = cost(room, dates.nights)
    id = scene.add(
        "booking_stays",
        **columns,
        room_id=room["id"],
        check_in=dates.arrive,
        check_out=dates.leave,
        total=total,
        created_at=scene.cast.now.isoformat(timespec="minutes"),
    )
    new = {"id": id, "place": place["name"], "total": total, "free_days": place["free_days"]}
    both = [stay, {**stay, **new, "check_in": dates.arrive, "check_out": dates.leave}]
    scene.need(stay["total"] != total and last_free(both[1]) >= scene.cast.day(0))
    others = [row for row in mine(scene) if row["id"] not in (stay["id"], id)]
    scene.need(not any(_overlap(one, two) for one in others for two in both))
    dear, kept = sorted(both, key=lambda row: -int(row["total"]))
    prompt = (
        "Two of my bookings for places to stay overlap on one night. Cancel the one with the higher total price, and"
        " tell me the name of the place where I will still stay that night."
    )

    def solve(walk: Walk) -> None:
        walk.goto("booking")
        walk.click(walk.word("stays"))
        rows = [one for one in walk.all_entries() if one[walk.word("status")] == "booked"]
        arrive, leave = walk.word("arrive"), walk.word("leave")
        pair = next(
            (one, two)
            for one in rows
            for two in rows
            if one is not two and one[arrive] <= two[arrive] < one[leave]
        )  # fmt: skip
        cheap, costly = sorted(pair, key=lambda one: float(one[walk.word("total")]))
        stays = cheap[walk.word("place")]
        open_stay(walk, costly[walk.word("place")])
        walk.click(walk.word("cancel_stay"))
        walk.click(walk.word("really"))
        walk.answer(stays)

    return TaskDraft(prompt, solve, must=(_cancelled(dear),), answer=Text(kept["place"]), secrets=(kept["place"],))


@template("booking", kind="checkout", held_out=True)
def booking_rebook(scene: Scene) -> TaskDraft:
    """Cancel a stay and book the cheapest other place of the city for the same nights."""
    stay = scene.pick([row for row in mine(scene) if last_free(row) >= scene.cast.day(0)])
    dates = Dates(stay["check_in"], stay["check_out"], stay["guests"])
    places = scene.db.rows(f"SELECT * FROM ({PLACES}) WHERE city = ? AND id <> ?", stay["city"], stay["place_id"])
    found = sorted(offers(scene.db, places, dates), key=lambda one: int(one["asked"]))
    scene.need(len(found) > 1 and found[0]["asked"] < found[1]["asked"])
    rooms = [room for room in rooms_of(scene.db, found[0]["id"]) if is_free(scene.db, room, dates)]
    rooms = [room for room in rooms if cost(room, dates.nights) == found[0]["asked"]]
    scene.need(len(rooms) == 1)
    guest = {name: stay[name] for name in ("guest_name", "email", "phone")}
    prompt = (
        f"Cancel my booking at the {stay['place']}. Instead, book the cheapest available room at another place in the"
        " same city, for the same dates and number of guests, with the same name, email address and phone number as in"
        " the old booking and no special request."
    )

    def solve(walk: Walk) -> None:
        open_stay(walk, stay["place"])
        now, city = _read(walk), walk.fact(walk.word("city"))
        who = {name: walk.fact(walk.word(name)) for name in guest}
        walk.click(walk.word("cancel_stay"))
        walk.click(walk.word("really"))
        search(walk, city, now)
        entry = walk.seek(lambda one: one.name != stay["place"])
        walk.click(entry.name, within=entry)
        book(walk, now, "", who)
        walk.answer()

    must = (_cancelled(stay), booked(scene.db, rooms[0], dates, {**guest, "note": ""}))
    return TaskDraft(prompt, solve, must=must)


def _cancelled(stay: Row) -> Must:
    return updated("booking_stays", stay["id"], "cancelled", status="cancelled")


def _overlap(one: Row, two: Row) -> bool:
    return bool(one["check_in"] < two["check_out"] and two["check_in"] < one["check_out"])


def _read(walk: Walk) -> Dates:
    """Return the dates of the stay on the current page."""
    guests = walk.fact(walk.word("guests"))
    return Dates(walk.fact(walk.word("arrive")), walk.fact(walk.word("leave")), int(guests))


TRIPS = (booking_book, booking_cancel, booking_move, booking_double, booking_rebook)
"""Templates about stays."""
