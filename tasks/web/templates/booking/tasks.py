"""Tasks of the booking site: looking up facts, saving places, and reviewing."""

from __future__ import annotations

from datetime import date

from ....rows.database import Row
from ....rows.expected import Matcher, Must, Number, Text, deleted, inserted
from ....rows.scene import Scene
from ....rows.template import TaskDraft, template
from ...simulators.accounts import account_of
from ...simulators.booking.places import SHOWN
from ...simulators.booking.rooms import AMENITIES, PLACES, left, offers, rooms_of, taken
from ..walk import Walk
from .trips import TRIPS
from .ways import mine, open_place, said, search, some_dates


@template("booking", kind="lookup")
def booking_fact(scene: Scene) -> TaskDraft:
    """Ask for a fact about a place given by name."""
    place = scene.row("SELECT * FROM booking_places")
    room = scene.pick(rooms_of(scene.db, place["id"]))
    what = scene.rng.pick(("street", "price", "weekend"))
    asked = {
        "street": f"What is the street address of the {place['name']}?",
        "price": f"How much is a night from Sunday to Monday in the {room['name']} of the {place['name']}?",
        "weekend": f"How much is a Saturday night in the {room['name']} of the {place['name']}?",
    }
    value: Matcher = Text(place["street"]) if what == "street" else Number(room[what] / 100)

    def solve(walk: Walk) -> None:
        open_place(walk, place["name"])
        if what == "street":
            walk.answer(walk.fact(walk.word("street")))
        else:
            walk.answer(walk.entry(room["name"])[walk.word(what)])

    return TaskDraft(f"Look this up on the booking site: {asked[what]}", solve, answer=value)


@template("booking", kind="lookup")
def booking_first_full(scene: Scene) -> TaskDraft:
    """Ask for the first night in which a room type is full, at higher levels for the first free night after it."""
    place = scene.row("SELECT * FROM booking_places")
    room = scene.pick(rooms_of(scene.db, place["id"]))
    gone, again = taken(scene.db, room["id"]), scene.level > 2
    since = scene.rng.randint(0, 20)
    nights = [scene.cast.day(number) for number in range(since, SHOWN + 1)]
    full = [left(room, night, gone) == 0 for night in nights]
    scene.need(any(full) and not full[0])
    number = full.index(True)
    if again:
        scene.need(False in full[number:])
        number = full.index(False, number)
    wanted = (
        f"is the first one with no {room['name']} left"
        if not again
        else f"is the first one when a {room['name']} is available again, after nights when all were taken"
    )
    prompt = (
        f"I'm looking for a room at the {place['name']} (on the booking site). Of the nights starting with {nights[0]},"
        f" which one {wanted}?"
    )

    def solve(walk: Walk) -> None:
        open_place(walk, place["name"])
        walk.click(walk.word("nights"))
        walk.fill(walk.word("since"), nights[0])
        walk.click(walk.word("apply"))
        found = walk.seek(lambda one: one[room["name"]] == "full")
        if again:
            after = found.name
            found = walk.seek(lambda one: one.name > after and one[room["name"]] != "full")
        walk.answer(found.name)

    return TaskDraft(prompt, solve, answer=Text(nights[number]), secrets=(nights[number],))


@template("booking", kind="filter")
def booking_cheapest(scene: Scene) -> TaskDraft:
    """Ask for the cheapest place for some dates, at higher levels with stars and amenities."""
    city, dates = scene.row("SELECT DISTINCT city FROM booking_places ORDER BY city")["city"], some_dates(scene)
    stars = scene.rng.randint(3, 4) if scene.level > 1 else 0
    amenities = scene.rng.sample(list(AMENITIES), min(2, scene.level // 2))
    places = scene.db.rows(f"SELECT * FROM ({PLACES}) WHERE city = ? AND stars >= ?", city, stars)
    places = [place for place in places if set(amenities) <= set(place["amenities"].split(", "))]
    found = sorted(offers(scene.db, places, dates), key=lambda one: int(one["asked"]))
    scene.need(len(found) > 1 and found[0]["asked"] < found[1]["asked"])
    limits = [f"at least {stars} stars"] * bool(stars) + list(amenities)
    with_them = f" with {' and '.join(limits)}" if limits else ""
    prompt = (
        f"Which place to stay in {city}{with_them} has the lowest total price {said(dates)}, all in one room? Check the"
        " booking site and tell me its name."
    )

    def solve(walk: Walk) -> None:
        search(walk, city, dates, stars, amenities)
        walk.answer(walk.entries()[0].name)

    return TaskDraft(prompt, solve, answer=Text(found[0]["name"]), secrets=(found[0]["name"],))


@template("booking", kind="form")
def booking_save(scene: Scene) -> TaskDraft:
    """Save a place or remove one; at higher levels, save all places of a city that have enough stars."""
    me = account_of(scene.db, "booking")["id"]
    had = {row["place_id"]: row["id"] for row in scene.db.rows("SELECT * FROM booking_saved WHERE account_id = ?", me)}
    places = scene.db.rows("SELECT * FROM booking_places")
    if scene.level > 2:
        return _save_many(scene, me, had, places)
    off = scene.rng.random() < 0.5
    place = scene.pick([row for row in places if (row["id"] in had) == off])
    if off:
        prompt = f"Remove the {place['name']} from my list of saved places on the booking site."
        must = deleted("booking_saved", had[place["id"]], "off the list")
    else:
        prompt = f"Add the {place['name']} to my list of saved places on the booking site."
        must = inserted("booking_saved", "saved", account_id=me, place_id=place["id"])

    def solve(walk: Walk) -> None:
        if off:
            walk.goto("booking")
            walk.click(walk.word("saved"))
            walk.click(walk.word("remove"), within=walk.entry(place["name"]))
        else:
            open_place(walk, place["name"])
            walk.click(walk.word("add_saved"))
        walk.answer()

    return TaskDraft(prompt, solve, must=(must,))


def _save_many(scene: Scene, me: object, had: dict[int, int], places: list[Row]) -> TaskDraft:
    """Save all places of a city that have enough stars."""
    city, stars = scene.pick(sorted({row["city"] for row in places})), scene.rng.randint(3, 5)
    wanted = [row for row in places if row["city"] == city and row["stars"] >= stars]
    new = [row for row in wanted if row["id"] not in had]
    scene.need(0 < len(new) < 4)
    prompt = (
        f"Add every place in {city} with {stars} or more stars to my list of saved places on the booking site, unless"
        " it is already there."
    )
    musts: list[Must] = [inserted("booking_saved", row["name"], account_id=me, place_id=row["id"]) for row in new]

    def solve(walk: Walk) -> None:
        walk.goto("booking")
        walk.click(walk.word("places"))
        walk.choose(walk.word("city"), city)
        walk.choose(walk.word("min_stars"), str(stars))
        walk.click(walk.word("search"))
        names = [entry.name for entry in walk.all_entries()]
        walk.click(walk.word("saved"))
        known = {entry.name for entry in walk.all_entries()}
        for name in names:
            if name not in known:
                open_place(walk, name)
                walk.click(walk.word("add_saved"))
        walk.answer()

    return TaskDraft(prompt, solve, must=tuple(musts))


@template("booking", kind="form")
def booking_review(scene: Scene) -> TaskDraft:
    """Review the place of the last stay, which has to be found."""
    me = account_of(scene.db, "booking")["name"]
    stays = mine(scene, "stayed")
    scene.need(bool(stays))
    first = scene.level > 2 and scene.rng.random() < 0.5
    stay = stays[0] if first else stays[-1]
    points = scene.rng.randint(1, 10)
    text = scene.pick(("Would come again.", "Too warm at night.", "Good coffee.", "A kind host.", "The view is nice."))
    prompt = (
        f"Find the {'earliest' if first else 'latest'} of my past bookings where I actually stayed, and review that"
        f" place on the booking site with {points} of 10 points and this text: {text}"
    )

    def solve(walk: Walk) -> None:
        walk.goto("booking")
        walk.click(walk.word("stays"))
        past = [one for one in walk.all_entries() if one[walk.word("status")] == "stayed"]
        found = sorted(past, key=lambda one: date.fromisoformat(one[walk.word("arrive")]))
        open_place(walk, found[0 if first else -1][walk.word("place")])
        walk.click(walk.word("reviews"))
        walk.choose(walk.word("points"), str(points))
        walk.fill(walk.word("comment"), text)
        walk.click(walk.word("review"))
        walk.answer()

    wanted = {"place_id": stay["place_id"], "author": me, "points": points, "text": Text(text)}
    return TaskDraft(prompt, solve, must=(inserted("booking_reviews", "review", **wanted),))


TEMPLATES = (booking_fact, booking_first_full, booking_cheapest, booking_save, booking_review, *TRIPS)
"""All templates of the booking site."""
