"""Text-Nav: walk through a house and bring things to their places.

LMRL-Gym's house (arXiv 2311.18232), rebuilt without TextWorld: eight rooms, the stale food on the living room's table,
the fridge in the kitchen. The score is 1 once the food is in the closed fridge and 0 until then; eating it loses. The
eight seeds are the eight rooms to start in, and an episode has 15 turns, as in its data.

``TEXT_NAV`` generates houses: the connection of rooms is the template, the words are the entities, and a house's own
hash decides its split. Measured on 360 houses per level (60 per split); "random" draws from the possible commands, and
"weak" is 35 % oracle and 65 % random:

| level | to do                                     | turns mean | turns max | limit mean | random | weak  |
|------:|-------------------------------------------|-----------:|----------:|-----------:|-------:|------:|
|     1 | reach a room                              |        4.3 |         6 |        6.5 |  0.103 | 0.375 |
|     2 | bring a thing from one surface to another |        5.5 |         7 |       10.9 |  0.006 | 0.239 |
|     3 | into a container, to be closed; a door    |        8.9 |        11 |       17.8 |  0.000 | 0.128 |
|     4 | a thing in an unknown place; two doors    |       12.0 |        15 |       36.1 |  0.000 | 0.222 |
|     5 | two such things; three doors              |       20.2 |        28 |       60.7 |  0.000 | 0.108 |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ...errors import TaskError
from ..family import TaskFamily
from ..rng import Rng, unit_hash
from ..spec import Split, TaskSpec
from .house import DIRECTIONS, Furniture, House, Thing, describe, plan
from .lmrl_house import ORIGINAL

Cell = tuple[int, int]
Joined = tuple[list[Cell], list[tuple[int, int]]]
"""Rooms as cells of a plan, and the pairs of connected rooms (indices)."""


@dataclass(frozen=True, slots=True)
class Words:
    """Names for the rooms, furniture and things of houses."""

    rooms: tuple[str, ...]
    containers: tuple[str, ...]
    surfaces: tuple[str, ...]
    food: tuple[str, ...]
    objects: tuple[str, ...]


SEEN = Words(
    ("kitchen", "bedroom", "bathroom", "office", "garden", "hall", "living room", "dining room", "garage", "attic",
     "cellar", "balcony"),
    ("fridge", "chest", "cupboard", "drawer", "box", "wardrobe", "cabinet"),
    ("table", "shelf", "desk", "counter", "bench", "sofa"),
    ("apple", "bread", "cheese", "carrot", "cake", "pear"),
    ("bowl", "plate", "key", "lamp", "book", "coin", "spoon", "candle", "hat", "rope"),
)  # fmt: skip
UNSEEN = Words(
    ("library", "nursery", "laundry", "workshop", "greenhouse", "gallery", "veranda", "sauna", "gym", "porch",
     "chapel", "lounge"),
    ("trunk", "crate", "safe", "locker", "basket", "bin", "oven"),
    ("stool", "rack", "sideboard", "bed", "armchair", "ledge"),
    ("plum", "muffin", "onion", "melon", "grape", "pie"),
    ("vase", "scarf", "mirror", "brush", "clock", "glove", "whistle", "map", "umbrella", "kettle"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NavLevel:
    """Parameters of a level.

    Args:
        rooms: number of rooms.
        stow: number of things to stow; 0 means that the objective is to reach a room.
        closed: whether they go into containers, which must be closed afterwards.
        hidden: whether they are in containers at first, in places that the objective does not name.
        doors: number of closed doors between rooms.
        least: fewest turns that the planner may need.
        most: most turns that the planner may need.
        patience: turn limit, in multiples of the planner's turns.
    """

    rooms: int
    stow: int
    closed: bool
    hidden: bool
    doors: int
    least: int
    most: int
    patience: float


LEVELS: Mapping[int, NavLevel] = MappingProxyType(
    {
        1: NavLevel(8, 0, False, False, 0, 4, 6, 1.5),
        2: NavLevel(6, 1, False, False, 0, 4, 7, 2.0),
        3: NavLevel(6, 1, True, False, 1, 8, 11, 2.0),
        4: NavLevel(8, 1, True, True, 2, 11, 15, 3.0),
        5: NavLevel(10, 2, True, True, 3, 16, 28, 3.0),
    }
)
TEMPLATES: Mapping[Split, tuple[str, ...]] = MappingProxyType(
    {
        Split.TRAIN: ("row", "grid", "branches"),
        Split.DEV: ("row", "grid", "branches"),
        Split.TEST_IID: ("row", "grid", "branches"),
        Split.TEST_TEMPLATE: ("ring", "comb"),
        Split.TEST_ENTITY: ("row", "grid", "branches"),
        Split.CHALLENGE: ("ring", "comb"),
    }
)


class TextNavFamily(TaskFamily[House]):
    """Procedural houses; a house's own hash decides between train, dev and the tests."""

    name = "text-nav"
    levels = tuple(LEVELS)
    splits = tuple(TEMPLATES)
    DRAWS = 2000
    """Most houses to draw per task; a few dozen are usually enough."""

    def templates(self, split: Split) -> tuple[str, ...]:
        return TEMPLATES[split]

    def build(self, spec: TaskSpec, rng: Rng) -> House:
        level = LEVELS[spec.level]
        words = UNSEEN if spec.split in (Split.TEST_ENTITY, Split.CHALLENGE) else SEEN
        held = spec.split if spec.split in (Split.TRAIN, Split.DEV) else Split.TEST_IID
        for _ in range(self.DRAWS):
            house = _furnish(JOIN[spec.template](level.rooms, rng), words, level, rng)
            if bucket(house) is not held:
                continue
            way = plan(house, house.begin)
            if way is not None and level.least <= len(way) <= level.most:
                return replace(house, turns=round(len(way) * level.patience))
        raise TaskError(f"no house for {spec} in {self.DRAWS} draws; choose another seed or template")


class FixedHouseFamily(TaskFamily[House]):
    """LMRL-Gym's house; the seed is the first room."""

    name = "text-nav-fixed"
    splits = (Split.TRAIN,)
    seeds = 8

    def build(self, spec: TaskSpec, rng: Rng) -> House:
        return replace(ORIGINAL, start=spec.seed)


def bucket(house: House) -> Split:
    """Return the split of a house, by its rooms, exits, furniture and things: train 70 %, dev 10 %, tests 20 %."""
    furniture = [(item.name, item.room) for item in house.furniture]
    things = [(thing.name, place) for thing, place in zip(house.things, house.places, strict=True)]
    share = unit_hash("text-nav-house", house.rooms, house.exits, furniture, things)
    return Split.TRAIN if share < 0.7 else Split.DEV if share < 0.8 else Split.TEST_IID


def row(rooms: int, rng: Rng) -> Joined:
    """Connect rooms one after the other, along a winding line."""
    while True:
        cells: list[Cell] = [(0, 0)]
        while len(cells) < rooms and (near := [cell for cell in _near(cells[-1]) if cell not in cells]):
            cells.append(rng.pick(near))
        if len(cells) == rooms:
            return cells, [(i, i + 1) for i in range(rooms - 1)]


def grid(rooms: int, rng: Rng) -> Joined:
    """Connect two rows of rooms, each room to all of its neighbors."""
    cells = [(i % 2, i // 2) for i in range(rooms)]
    return cells, [(i, j) for i in range(rooms) for j in range(i) if cells[j] in _near(cells[i])]


def branches(rooms: int, rng: Rng) -> Joined:
    """Connect rooms as a tree."""
    cells: list[Cell] = [(0, 0)]
    joined: list[tuple[int, int]] = []
    while len(cells) < rooms:
        parent = rng.randrange(len(cells))
        if near := [cell for cell in _near(cells[parent]) if cell not in cells]:
            joined.append((parent, len(cells)))
            cells.append(rng.pick(near))
    return cells, joined


def ring(rooms: int, rng: Rng) -> Joined:
    """Connect rooms around a yard in a closed ring."""
    half = rooms // 2
    cells = [(0, i) for i in range(half)] + [(1, i) for i in reversed(range(half))]
    return cells, [(i, (i + 1) % len(cells)) for i in range(len(cells))]


def comb(rooms: int, rng: Rng) -> Joined:
    """Connect rooms along a corridor, each with one more room beside it."""
    half = rooms // 2
    cells = [(0, i) for i in range(half)] + [(rng.pick((-1, 1)), i) for i in range(half)]
    return cells, [(i, i + 1) for i in range(half - 1)] + [(i, half + i) for i in range(half)]


JOIN: Mapping[str, Callable[[int, Rng], Joined]] = MappingProxyType(
    {"row": row, "grid": grid, "branches": branches, "ring": ring, "comb": comb}
)


def _furnish(joined: Joined, words: Words, level: NavLevel, rng: Rng) -> House:
    """Draw a house of the level's kind, without regard to the planner's turns."""
    cells, pairs = joined
    names = rng.sample(words.rooms, len(cells))
    furniture = _furniture(len(cells), words, level, rng)
    things = [Thing(name, True) for name in rng.sample(words.food, 2)]
    things += [Thing(name) for name in rng.sample(words.objects, 2 + level.stow)]
    rng.shuffle(things)
    targets = rng.sample([i for i, item in enumerate(furniture) if item.container == level.closed], max(level.stow, 1))
    sources = [i for i, item in enumerate(furniture) if item.container == level.hidden and i not in targets]
    places = [rng.pick(sources) if i < level.stow else rng.randrange(len(furniture)) for i in range(len(things))]
    start = rng.randrange(len(cells))
    reach = rng.pick([room for room in range(len(cells)) if room != start]) if level.stow == 0 else None
    stow = tuple((i, targets[i]) for i in range(level.stow))
    house = House(
        rooms=tuple(names),
        exits=_exits(cells, pairs),
        furniture=tuple(furniture),
        things=tuple(things),
        places=tuple(places),
        start=start,
        objective="",
        turns=1,
        doors=tuple(rng.sample(pairs, level.doors)),
        stow=stow,
        reach=reach,
    )
    return replace(house, objective=describe(house, tell=not level.hidden))


def _furniture(rooms: int, words: Words, level: NavLevel, rng: Rng) -> list[Furniture]:
    """Draw at most one container and one surface per room, each name once in the house."""
    containers = rng.sample(words.containers, min(rooms, 2 + 2 * level.stow if level.closed else 1))
    surfaces = rng.sample(words.surfaces, min(rooms, 3 + level.stow))
    return [
        Furniture(name, room, container)
        for names, container in ((containers, True), (surfaces, False))
        for name, room in zip(names, rng.sample(range(rooms), len(names)), strict=True)
    ]


def _exits(cells: Sequence[Cell], pairs: Sequence[tuple[int, int]]) -> tuple[tuple[tuple[str, int], ...], ...]:
    ways: list[list[tuple[str, int]]] = [[] for _ in cells]
    for one, other in pairs:
        for here, there in ((one, other), (other, one)):
            offset = cells[there][0] - cells[here][0], cells[there][1] - cells[here][1]
            ways[here].append((next(name for name, step in DIRECTIONS.items() if step == offset), there))
    return tuple(tuple(sorted(way, key=lambda pair: list(DIRECTIONS).index(pair[0]))) for way in ways)


def _near(cell: Cell) -> list[Cell]:
    return [(cell[0] + dr, cell[1] + dc) for dr, dc in DIRECTIONS.values()]


TEXT_NAV = TextNavFamily()
FIXED_HOUSE = FixedHouseFamily()
