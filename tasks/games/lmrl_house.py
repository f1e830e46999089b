"""LMRL-Gym's house as facts (arXiv 2311.18232): eight rooms, the stale food, the fridge it belongs in."""

from __future__ import annotations

from dataclasses import replace

from .house import Furniture, House, Thing, describe


def _original() -> House:
    rooms = ("bedroom", "office", "bathroom", "living room", "kitchen", "dining room", "garden", "backyard")
    ways = (
        ("bedroom", "west", "living room", "east"),
        ("living room", "west", "dining room", "east"),
        ("dining room", "west", "kitchen", "east"),
        ("kitchen", "north", "garden", "south"),
        ("living room", "south", "office", "north"),
        ("office", "east", "bathroom", "west"),
        ("bedroom", "south", "bathroom", "north"),
        ("kitchen", "west", "backyard", "east"),
    )
    exits: list[list[tuple[str, int]]] = [[] for _ in rooms]
    for one, leaving, other, coming in ways:
        exits[rooms.index(one)].append((leaving, rooms.index(other)))
        exits[rooms.index(other)].append((coming, rooms.index(one)))
    furniture = (
        Furniture("table", rooms.index("bedroom"), False),
        Furniture("table", rooms.index("living room"), False),
        Furniture("table", rooms.index("dining room"), False),
        Furniture("chest", rooms.index("office"), True),
        Furniture("fridge", rooms.index("kitchen"), True),
    )
    things = (
        Thing("stale food", True),
        Thing("fresh food", True),
        Thing("bowl"),
        Thing("coffee cup"),
        Thing("plate"),
        Thing("utensils"),
        Thing("fruit", True),
    )
    house = House(
        rooms=rooms,
        exits=tuple(tuple(way) for way in exits),
        furniture=furniture,
        things=things,
        places=(1, 1, 0, 2, 2, 3, 4),
        start=0,
        objective="",
        turns=15,
        stow=((0, 4),),
    )
    return replace(house, objective=describe(house, tell=True))


ORIGINAL = _original()
"""LMRL-Gym's house with the start in the bedroom; the seeds of its family start elsewhere."""
