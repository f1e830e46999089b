"""Mazes: LMRL-Gym's fixed ones, and a procedural family whose held-out layouts are never in train.

Rules (LMRL-Gym, arXiv 2311.18232, as in its source): −1 per turn, also for walking into a wall; −4 for text that is not
a move; 0 for the move that reaches the goal. On ``double_t`` the mean optimal return over all 25 starts is −6.84, the
published maximum.

Measurements of the procedural levels on 500 mazes each (100 per split). Random play uses open directions only; "weak"
is 35 % oracle and 65 % random moves. The memoryless walker is ``reactive_move``, which is guaranteed to arrive on level
1 only. On level 1, half of the inner walls have been removed.

| level | inside | turns, mean | turns max | limit mean | random | weak  | memoryless |
|------:|--------|------------:|----------:|-----------:|-------:|------:|-----------:|
|     1 | 7 × 7  |         7.1 |        10 |       12.9 |  0.036 | 0.260 |      1.000 |
|     2 | 9 × 9  |        10.3 |        14 |       20.6 |  0.010 | 0.314 |      0.534 |
|     3 | 11²    |        14.4 |        20 |       36.0 |  0.006 | 0.326 |      0.450 |
|     4 | 15²    |        21.6 |        32 |       64.7 |  0.002 | 0.484 |      0.348 |
|     5 | 21²    |        33.4 |        69 |      100.2 |  0.000 | 0.446 |      0.274 |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from ...errors import TaskError
from ..family import TaskFamily
from ..rng import Rng
from ..spec import Split, TaskSpec
from .maze_layouts import DOUBLE_T, LARGE, MEDIUM, MOVES, U_MAZE, Cell, Layout, bucket, draw, free_cells, weathered


@dataclass(frozen=True)
class Maze:
    """One maze to walk.

    Args:
        layout: layout with ``#`` for walls and ``.`` for free cells, including the border.
        start: first cell, (row, column).
        goal: goal cell, (row, column).
        turns: turn limit.
    """

    layout: Layout
    start: Cell
    goal: Cell
    turns: int

    @cached_property
    def distance(self) -> Mapping[Cell, int]:
        """Moves to the goal from every cell that can reach it, by breadth-first search."""
        return distances(self.layout, self.goal)

    @property
    def optimum(self) -> int:
        """The fewest turns from start to goal."""
        return self.distance[self.start]

    def open(self, cell: Cell) -> tuple[str, ...]:
        """Return the moves that do not lead into a wall."""
        return tuple(move for move in MOVES if self.layout[step(cell, move)[0]][step(cell, move)[1]] == ".")

    def best(self, cell: Cell) -> str:
        """Return a move on a shortest path to the goal; of two, the one that closes the longer offset."""
        offsets = toward(cell, self.goal)
        return min(self.open(cell), key=lambda move: (self.distance[step(cell, move)], -offsets.get(move, 0)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing in it ever changes, so forks may share it


@dataclass(frozen=True, slots=True)
class MazeLevel:
    """Parameters of a level.

    Args:
        size: number of inner rows and columns.
        least: fewest turns from a start to its goal.
        most: most turns from a start to its goal.
        patience: turn limit, in multiples of the fewest turns.
        reactive: whether to use only starts from which a memoryless walker (``reactive_move``) arrives in time.
        weathered: share of the inner walls to remove.
    """

    size: int
    least: int
    most: int
    patience: float
    reactive: bool = False
    weathered: float = 0.0


LEVELS: Mapping[int, MazeLevel] = {
    1: MazeLevel(size=7, least=6, most=10, patience=1.8, reactive=True),
    2: MazeLevel(size=9, least=8, most=14, patience=2.0),
    3: MazeLevel(size=11, least=12, most=20, patience=2.5),
    4: MazeLevel(size=15, least=18, most=32, patience=3.0),
    5: MazeLevel(size=21, least=28, most=70, patience=3.0),
}
TEMPLATES: Mapping[Split, tuple[str, ...]] = {
    Split.TRAIN: ("pillars", "rooms", "corridors", "braid"),
    Split.DEV: ("pillars", "rooms", "corridors", "braid"),
    Split.TEST_IID: ("pillars", "rooms", "corridors", "braid"),
    Split.TEST_TEMPLATE: ("islands", "tree"),
    Split.CHALLENGE: ("caves",),
}


class MazeFamily(TaskFamily[Maze]):
    """Procedural mazes; a layout's own hash decides its split, and held-out templates are in no other split."""

    name = "maze"
    levels = tuple(LEVELS)
    splits = tuple(TEMPLATES)
    DRAWS = 2000
    """Most layouts to draw per task; two or three dozen are usually enough."""

    def templates(self, split: Split) -> tuple[str, ...]:
        return TEMPLATES[split]

    def build(self, spec: TaskSpec, rng: Rng) -> Maze:
        level = LEVELS[spec.level]
        # The challenge is larger as well as of other templates.
        size = level.size + 2 if spec.split is Split.CHALLENGE else level.size
        held = Split.TEST_IID if spec.split in (Split.TEST_TEMPLATE, Split.CHALLENGE) else spec.split
        for _ in range(self.DRAWS):
            layout = weathered(draw(spec.template, size, rng), level.weathered, rng)
            if bucket(layout) is held and (maze := _place(layout, level, rng)):
                return maze
        raise TaskError(f"no maze for {spec} in {self.DRAWS} draws; choose another seed or template")


class FixedMazeFamily(TaskFamily[Maze]):
    """One published layout; the seed chooses the start among its free cells, row by row.

    Args:
        name: name of the family.
        layout: the maze.
        goal: goal cell, (row, column).
        turns: turn limit.
    """

    splits = (Split.TRAIN,)

    def __init__(self, name: str, layout: Layout, goal: Cell, turns: int = 100) -> None:
        self.name, self.layout, self.goal, self.turns = name, layout, goal, turns
        self.starts = tuple(cell for cell in free_cells(layout) if cell != goal)
        self.seeds = len(self.starts)

    def build(self, spec: TaskSpec, rng: Rng) -> Maze:
        return Maze(self.layout, self.starts[spec.seed], self.goal, self.turns)


MAZES = MazeFamily()
DOUBLE_T_MAZE = FixedMazeFamily("maze-double-t", DOUBLE_T, (8, 6))
U_SHAPED_MAZE = FixedMazeFamily("maze-u", U_MAZE, (3, 3))
MEDIUM_MAZE = FixedMazeFamily("maze-medium", MEDIUM, (6, 6))
LARGE_MAZE = FixedMazeFamily("maze-large", LARGE, (10, 7))


def step(cell: Cell, move: str) -> Cell:
    """Return the cell that a move leads to, ignoring walls."""
    return cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]


def distances(layout: Layout, goal: Cell) -> dict[Cell, int]:
    """Return the number of moves to ``goal`` from every cell that can reach it."""
    found = {goal: 0}
    queue = deque([goal])
    while queue:
        cell = queue.popleft()
        for move in MOVES:
            near = step(cell, move)
            if near not in found and layout[near[0]][near[1]] == ".":
                found[near] = found[cell] + 1
                queue.append(near)
    return found


def toward(cell: Cell, goal: Cell) -> dict[str, int]:
    """Return the distance to the goal in each direction that leads closer to it, e.g. ``{"up": 2, "left": 3}``."""
    down, right = goal[0] - cell[0], goal[1] - cell[1]
    offsets = {"up": -down, "down": down, "left": -right, "right": right}
    return {move: offset for move, offset in offsets.items() if offset > 0}


def reactive_move(cell: Cell, goal: Cell, ways: tuple[str, ...]) -> str:
    """Return the move of a walker without memory or map: close the longer offset, else the shorter, else sidestep.

    Args:
        cell: the walker's cell.
        goal: goal cell.
        ways: moves that do not lead into a wall.
    """
    offsets = toward(cell, goal)
    wanted = sorted((move for move in offsets if move in ways), key=lambda move: -offsets[move])
    sideways = [move for move in ways if not any(offsets.get(m) for m in _axis(move))]
    return (wanted or sideways or list(ways))[0]


def arrives(maze: Maze) -> bool:
    """Return whether the memoryless walker reaches the goal within the turn limit."""
    cell = maze.start
    for _ in range(maze.turns):
        cell = step(cell, reactive_move(cell, maze.goal, maze.open(cell)))
        if cell == maze.goal:
            return True
    return False


def _axis(move: str) -> tuple[str, str]:
    return ("up", "down") if move in ("up", "down") else ("left", "right")


def _place(layout: Layout, level: MazeLevel, rng: Rng) -> Maze | None:
    """Draw a goal and a start in ``layout`` that fit the level; ``None`` if the goal has no such start."""
    goal = rng.pick(free_cells(layout))
    starts = [cell for cell, far in distances(layout, goal).items() if level.least <= far <= level.most]
    rng.shuffle(starts)
    for start in starts:
        far = distances(layout, goal)[start]
        maze = Maze(layout, start, goal, round(far * level.patience))
        if not level.reactive or arrives(maze):
            return maze
    return None
