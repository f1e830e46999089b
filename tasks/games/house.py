"""A house to act in: rooms, doors, furniture and things, the possible commands with their effects, and shortest plans.

The game, the list of admissible commands, random play and the planner all use one transition function, ``moves``.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, Self

DIRECTIONS = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}
"""Row and column offsets on the plan of a house."""
CARRIED, EATEN, FLOOR = -1, -2, -10
"""Places of a thing other than furniture: with the agent, eaten, or on the floor of room r (``FLOOR - r``)."""


@dataclass(frozen=True, slots=True)
class Furniture:
    """A piece of furniture: a container (closed at first) or a surface."""

    name: str
    room: int
    container: bool


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing that can be carried, and eaten if it is food."""

    name: str
    food: bool = False


class State(NamedTuple):
    """The changing state: the agent's room, the place of each thing, and a bit for each open container and door."""

    room: int
    places: tuple[int, ...]
    opened: int


@dataclass(frozen=True)
class House:
    """One house and its objective.

    Args:
        rooms: names of the rooms.
        exits: for each room, its directions and the rooms that they lead to.
        doors: pairs of rooms with a door between them, closed at first; other exits are always open.
        furniture: furniture of all rooms; a name occurs once per room.
        things: things that can be carried.
        places: initial place of each thing, an index into ``furniture``.
        start: index of the first room.
        stow: pairs of thing and furniture: each thing must end there, and a container must be closed.
        reach: index of the room to be in at the end; ``None`` for any.
        objective: objective in words.
        turns: turn limit.
    """

    rooms: tuple[str, ...]
    exits: tuple[tuple[tuple[str, int], ...], ...]
    furniture: tuple[Furniture, ...]
    things: tuple[Thing, ...]
    places: tuple[int, ...]
    start: int
    objective: str
    turns: int
    doors: tuple[tuple[int, int], ...] = ()
    stow: tuple[tuple[int, int], ...] = ()
    reach: int | None = None

    @property
    def begin(self) -> State:
        """The initial state, with everything closed."""
        return State(self.start, self.places, 0)

    @cached_property
    def far(self) -> tuple[tuple[int, ...], ...]:
        """Number of moves from one room to another, ignoring doors, shape [rooms, rooms]."""
        return tuple(self._far(room) for room in range(len(self.rooms)))

    def _far(self, room: int) -> tuple[int, ...]:
        found, queue = {room: 0}, deque([room])
        while queue:
            here = queue.popleft()
            for _, near in self.exits[here]:
                if near not in found:
                    found[near] = found[here] + 1
                    queue.append(near)
        return tuple(found[other] for other in range(len(self.rooms)))

    def solved(self, state: State) -> bool:
        """Return whether everything is in its place, the containers are closed, and the agent is in the right room."""
        return (self.reach is None or state.room == self.reach) and all(
            state.places[thing] == at and not (self.furniture[at].container and state.opened >> at & 1)
            for thing, at in self.stow
        )

    def lost(self, state: State) -> bool:
        """Return whether a needed thing has been eaten."""
        return any(state.places[thing] == EATEN for thing, _ in self.stow)

    def door(self, here: int, there: int) -> int | None:
        """Return the bit of the door between two rooms, or ``None``."""
        for index, pair in enumerate(self.doors):
            if pair in ((here, there), (there, here)):
                return len(self.furniture) + index
        return None

    def where(self, place: int, state: State) -> int | None:
        """Return the room of a place; ``None`` for a thing that has been eaten."""
        if place == EATEN:
            return None
        if place == CARRIED:
            return state.room
        return self.furniture[place].room if place >= 0 else FLOOR - place

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it ever changes, so forks may share it


def moves(house: House, state: State) -> Iterator[tuple[str, State]]:
    """Yield every admissible command and the state that it leads to, in a fixed order."""
    room, places, opened = state
    for direction, there in house.exits[room]:
        door = house.door(room, there)
        if door is None or opened >> door & 1:
            yield f"go {direction}", State(there, places, opened)
        if door is not None:
            verb = "close" if opened >> door & 1 else "open"
            yield f"{verb} {direction} door", State(room, places, opened ^ 1 << door)
    here = [(at, item) for at, item in enumerate(house.furniture) if item.room == room]
    for at, item in here:
        if item.container:
            yield f"{'close' if opened >> at & 1 else 'open'} {item.name}", State(room, places, opened ^ 1 << at)
    for index, (thing, place) in enumerate(zip(house.things, places, strict=True)):
        if place == CARRIED:
            for at, item in here:
                if not item.container:
                    yield f"put {thing.name} on {item.name}", State(room, _moved(places, index, at), opened)
                elif opened >> at & 1:
                    yield f"insert {thing.name} into {item.name}", State(room, _moved(places, index, at), opened)
            yield f"drop {thing.name}", State(room, _moved(places, index, FLOOR - room), opened)
            if thing.food:
                yield f"eat {thing.name}", State(room, _moved(places, index, EATEN), opened)
        elif place == FLOOR - room:
            yield f"take {thing.name}", State(room, _moved(places, index, CARRIED), opened)
        elif place >= 0 and reachable(house, state, place):
            name = house.furniture[place].name
            yield f"take {thing.name} from {name}", State(room, _moved(places, index, CARRIED), opened)


def reachable(house: House, state: State, at: int) -> bool:
    """Return whether furniture is in this room and open, so that the agent can see and take things in it."""
    item = house.furniture[at]
    return item.room == state.room and (not item.container or bool(state.opened >> at & 1))


def plan(house: House, state: State) -> tuple[str, ...] | None:
    """Return a shortest plan, by A* over ``moves``; ``None`` if there is none.

    The search tries only commands that can be part of a shortest plan. They are walking, opening doors and the
    containers to empty or fill, taking and stowing the things to stow, and closing their containers.
    """
    useful = _useful(house, state)
    order = count()
    best = {state: 0}
    came: dict[State, tuple[State, str]] = {}
    # Among equals, expand the furthest first: on a grid of rooms, many paths are equally short.
    queue = [(_at_least(house, state), 0, next(order), state)]
    while queue:
        _, depth, _, here = heapq.heappop(queue)
        if -depth > best[here]:
            continue
        if house.solved(here):
            return _path(came, here)
        cost = 1 - depth
        for command, there in moves(house, here):
            if cost < best.get(there, 1 << 30) and (command[:3] == "go " or (here.room, command) in useful):
                best[there], came[there] = cost, (here, command)
                heapq.heappush(queue, (cost + _at_least(house, there), -cost, next(order), there))
    return None


def describe(house: House, *, tell: bool) -> str:
    """Return the objective in words; with ``tell``, include where things are at first."""
    parts = []
    for thing, at in house.stow:
        source, target = house.furniture[house.places[thing]], house.furniture[at]
        what = f"the {house.things[thing].name}"
        if tell:
            what += f" from the {source.name} in the {house.rooms[source.room]}"
        into = f"{'into' if target.container else 'on'} the {target.name} in the {house.rooms[target.room]}"
        parts.append(f"put {what} {into}" + (f" and close the {target.name}" if target.container else ""))
    if house.reach is not None:
        parts.append(f"go to the {house.rooms[house.reach]}")
    text = ", and ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _useful(house: House, state: State) -> set[tuple[int, str]]:
    """Return the commands besides walking that a shortest plan may contain, each with the room to give it in."""
    found: set[tuple[int, str]] = set()
    for room, ways in enumerate(house.exits):
        found |= {(room, f"open {direction} door") for direction, _ in ways}
    for thing, at in house.stow:
        name, target, place = house.things[thing].name, house.furniture[at], state.places[thing]
        if target.container:
            found |= {(target.room, f"{verb} {target.name}") for verb in ("open", "close")}
        found.add((target.room, f"{'insert' if target.container else 'put'} {name} "
                                f"{'into' if target.container else 'on'} {target.name}"))  # fmt: skip
        source = house.where(place, state)
        if source is not None and place != CARRIED and place != at:
            found.add((source, f"take {name} from {house.furniture[place].name}" if place >= 0 else f"take {name}"))
            if place >= 0 and house.furniture[place].container:
                found.add((source, f"open {house.furniture[place].name}"))
    return found


def _at_least(house: House, state: State) -> int:
    """Return a lower bound on the turns still needed: handling, plus the longest single errand on foot."""
    handling, errand = 0, 0 if house.reach is None else house.far[state.room][house.reach]
    closing: set[int] = set()
    for thing, at in house.stow:
        target = house.furniture[at]
        is_open = bool(state.opened >> at & 1)
        place = state.places[thing]
        if place == at:
            if target.container and is_open:
                closing.add(at)
                errand = max(errand, house.far[state.room][target.room])
            continue
        source = house.where(place, state)
        if source is None:
            continue
        handling += 1 if place == CARRIED else 2
        errand = max(errand, house.far[state.room][source] + house.far[source][target.room])
        if target.container:
            closing.add(at)
    handling += sum(1 if state.opened >> at & 1 else 2 for at in closing)
    return handling + errand


def _path(came: dict[State, tuple[State, str]], state: State) -> tuple[str, ...]:
    commands: list[str] = []
    while state in came:
        state, command = came[state]
        commands.append(command)
    return tuple(reversed(commands))


def _moved(places: tuple[int, ...], thing: int, place: int) -> tuple[int, ...]:
    return (*places[:thing], place, *places[thing + 1 :])
