"""Maze layouts: one pure generator per template, the published fixed mazes, and the hash that assigns splits.

A layout is a tuple of equally long strings, ``#`` for walls and ``.`` for free cells, with a closed border. The split
of a procedural layout is a function of the layout itself, modulo rotation and reflection. A held-out maze is therefore
held out in every orientation, whichever seed or template draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..rng import Rng, unit_hash
from ..spec import Split

Layout = tuple[str, ...]
Cell = tuple[int, int]
Grid = list[list[bool]]
"""The inside of a layout, without its border: ``True`` for free cells."""

MOVES: Mapping[str, Cell] = MappingProxyType({"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)})
"""Row and column offsets of the four moves."""

DOUBLE_T: Layout = (
    "#############",
    "#.....#.....#",
    "###.#####.###",
    "###.#####.###",
    "###.#####.###",
    "###.......###",
    "######.######",
    "######.######",
    "######.######",
    "#############",
)
"""LMRL-Gym's ``double_t_maze`` (arXiv 2311.18232): 26 free cells, goal (8, 6)."""
U_MAZE: Layout = ("#####", "#...#", "#.#.#", "#.#.#", "#####")
"""LMRL-Gym's ``maze2d_umaze``: 7 free cells, goal (3, 3)."""
MEDIUM: Layout = (
    "########",
    "#..#...#",
    "#..#.#.#",
    "##....##",
    "###.#..#",
    "#....#.#",
    "#..#...#",
    "########",
)
"""LMRL-Gym's ``maze2d_medium``. It names no goal; Turnwise uses the far corner, (6, 6)."""
LARGE: Layout = (
    "#########",
    "#.....#.#",
    "#.#.#.#.#",
    "#...#...#",
    "#.###.###",
    "#.......#",
    "###.###.#",
    "#...#...#",
    "#.#.#####",
    "#.#.#...#",
    "#.....#.#",
    "#########",
)
"""LMRL-Gym's ``maze2d_large``. It names no goal; Turnwise uses the far corner, (10, 7)."""


def free_cells(layout: Layout) -> tuple[Cell, ...]:
    """Return the free cells, row by row."""
    return tuple((r, c) for r, row in enumerate(layout) for c, mark in enumerate(row) if mark == ".")


def bucket(layout: Layout) -> Split:
    """Return the split of a layout: train 70 %, dev 10 %, held out for every test split 20 %.

    The result is equal for the eight rotations and reflections of a layout. ``TEST_IID`` stands for all test splits.
    """
    share = unit_hash("maze-layout", canonical(layout))
    return Split.TRAIN if share < 0.7 else Split.DEV if share < 0.8 else Split.TEST_IID


def canonical(layout: Layout) -> Layout:
    """Return the smallest of a layout's eight rotations and reflections."""
    forms = []
    for _ in range(4):
        layout = tuple("".join(row[c] for row in reversed(layout)) for c in range(len(layout[0])))
        forms += [layout, tuple(row[::-1] for row in layout)]
    return min(forms)


def draw(template: str, size: int, rng: Rng) -> Layout:
    """Draw a connected layout of ``size`` × ``size`` inner cells.

    Args:
        template: key of ``TEMPLATES``.
        size: number of inner rows and columns, odd and at least 5.
        rng: the only source of randomness.
    """
    grid = TEMPLATES[template](size, rng)
    border = "#" * (size + 2)
    return (border, *("#" + "".join("." if free else "#" for free in row) + "#" for row in grid), border)


def weathered(layout: Layout, share: float, rng: Rng) -> Layout:
    """Remove a share of a layout's inner walls: those next to free cells, so that it stays connected."""
    rows = [list(row) for row in layout]
    for r in range(1, len(layout) - 1):
        for c in range(1, len(layout[r]) - 1):
            near = (layout[r - 1][c], layout[r + 1][c], layout[r][c - 1], layout[r][c + 1])
            if layout[r][c] == "#" and "." in near and rng.random() < share:
                rows[r][c] = "."
    return tuple("".join(row) for row in rows)


def pillars(size: int, rng: Rng) -> Grid:
    """Draw an open hall with single pillars that do not touch: many paths everywhere."""
    grid = _open(size)
    for r, c in _shuffled([(r, c) for r in range(size) for c in range(size)], rng)[: size * size // 3]:
        if all(grid[y][x] for y, x in _around(r, c, size)):
            grid[r][c] = False
    return grid


def rooms(size: int, rng: Rng) -> Grid:
    """Draw rooms by recursive division; each dividing wall has a door, the long ones two."""
    grid = _open(size)
    _divide(grid, (0, 0, size, size), rng)
    return grid


def corridors(size: int, rng: Rng) -> Grid:
    """Draw parallel corridors, joined by one or two gaps in each wall between them."""
    grid = [[row % 2 == 0] * size for row in range(size)]
    for row in range(1, size, 2):
        for column in rng.sample(range(size), 1 + rng.randrange(2) + size // 12):
            grid[row][column] = True
    return grid if rng.random() < 0.5 else [list(column) for column in zip(*grid, strict=True)]


def braid(size: int, rng: Rng) -> Grid:
    """Draw winding passages without dead ends: a tree whose every dead end is opened into a loop."""
    grid = tree(size, rng)
    for r in range(0, size, 2):
        for c in range(0, size, 2):
            walls = [(y, x) for y, x in _beside(r, c, size) if not grid[y][x]]
            if len(walls) == len(_beside(r, c, size)) - 1:
                y, x = rng.pick(walls)
                grid[y][x] = True
    return grid


def tree(size: int, rng: Rng) -> Grid:
    """Draw a perfect maze by randomized growth: exactly one path between any two cells."""
    grid = [[False] * size for _ in range(size)]
    start = (rng.randrange(0, size, 2), rng.randrange(0, size, 2))
    grid[start[0]][start[1]] = True
    growing = [start]
    while growing:
        # Mostly extend the newest cell (long passages), now and then any (branches).
        index = len(growing) - 1 if rng.random() < 0.7 else rng.randrange(len(growing))
        r, c = growing[index]
        ahead = [(dr, dc) for dr, dc in MOVES.values() if _inside(r + 2 * dr, c + 2 * dc, size)]
        ahead = [(dr, dc) for dr, dc in ahead if not grid[r + 2 * dr][c + 2 * dc]]
        if not ahead:
            growing.pop(index)
            continue
        dr, dc = rng.pick(ahead)
        grid[r + dr][c + dc] = grid[r + 2 * dr][c + 2 * dc] = True
        growing.append((r + 2 * dr, c + 2 * dc))
    return grid


def islands(size: int, rng: Rng) -> Grid:
    """Draw an open hall with blocks of two to four cells that do not touch; fill corners that a block cuts off."""
    grid = _open(size)
    for r, c in _shuffled([(r, c) for r in range(size) for c in range(size)], rng)[: size * size // 2]:
        block = [(r + y, c + x) for y, x in rng.pick(BLOCKS) if _inside(r + y, c + x, size)]
        if len(block) > 1 and all(grid[y][x] for cell in block for y, x in _around(*cell, size)):
            for y, x in block:
                grid[y][x] = False
    return _connected({(r, c) for r in range(size) for c in range(size) if grid[r][c]}, size)


def caves(size: int, rng: Rng) -> Grid:
    """Draw irregular caves: noise, smoothed once by the majority of each neighborhood; cut-off hollows are filled."""
    noise = [[rng.random() > 0.4 for _ in range(size)] for _ in range(size)]
    hollow = {
        (r, c) for r in range(size) for c in range(size) if sum(not noise[y][x] for y, x in _around(r, c, size)) < 5
    }
    return _connected(hollow, size)


def _connected(hollow: set[Cell], size: int) -> Grid:
    """Return the grid of the largest connected part of some cells."""
    regions = []
    while hollow:
        regions.append(_region(min(hollow), hollow))
        hollow = hollow - regions[-1]
    largest = max(regions, key=lambda region: (len(region), min(region)), default=set())
    return [[(r, c) in largest for c in range(size)] for r in range(size)]


BLOCKS: tuple[tuple[Cell, ...], ...] = (
    ((0, 0), (0, 1)),
    ((0, 0), (1, 0)),
    ((0, 0), (0, 1), (0, 2)),
    ((0, 0), (1, 0), (2, 0)),
    ((0, 0), (0, 1), (1, 0)),
    ((0, 0), (0, 1), (1, 0), (1, 1)),
)
TEMPLATES: Mapping[str, Callable[[int, Rng], Grid]] = MappingProxyType(
    {
        "pillars": pillars,
        "rooms": rooms,
        "corridors": corridors,
        "braid": braid,
        "islands": islands,
        "tree": tree,
        "caves": caves,
    }
)


def _divide(grid: Grid, box: tuple[int, int, int, int], rng: Rng) -> None:
    """Wall off part of a rectangle (top, left, height, width); walls are on odd lines, doors on even ones."""
    top, left, height, width = box
    if min(height, width) < 3 or height * width < 12:
        return
    if height > width or (height == width and rng.random() < 0.5):
        wall = top + rng.randrange(1, height, 2)
        doors = _doors(left, width, rng)
        for c in range(left, left + width):
            grid[wall][c] = c in doors
        _divide(grid, (top, left, wall - top, width), rng)
        _divide(grid, (wall + 1, left, top + height - wall - 1, width), rng)
    else:
        wall = left + rng.randrange(1, width, 2)
        doors = _doors(top, height, rng)
        for r in range(top, top + height):
            grid[r][wall] = r in doors
        _divide(grid, (top, left, height, wall - left), rng)
        _divide(grid, (top, wall + 1, height, left + width - wall - 1), rng)


def _doors(first: int, length: int, rng: Rng) -> list[int]:
    return rng.sample(range(first, first + length, 2), 2 if length > 4 else 1)


def _open(size: int) -> Grid:
    return [[True] * size for _ in range(size)]


def _inside(r: int, c: int, size: int) -> bool:
    return 0 <= r < size and 0 <= c < size


def _beside(r: int, c: int, size: int) -> list[Cell]:
    return [(r + y, c + x) for y, x in MOVES.values() if _inside(r + y, c + x, size)]


def _around(r: int, c: int, size: int) -> list[Cell]:
    """Return the cell and its up to eight neighbors."""
    return [(r + y, c + x) for y in (-1, 0, 1) for x in (-1, 0, 1) if _inside(r + y, c + x, size)]


def _shuffled(cells: list[Cell], rng: Rng) -> list[Cell]:
    rng.shuffle(cells)
    return cells


def _region(start: Cell, free: set[Cell]) -> set[Cell]:
    """Return the cells of ``free`` that are reachable from ``start``."""
    seen, frontier = {start}, [start]
    while frontier:
        r, c = frontier.pop()
        new = {(r + dr, c + dc) for dr, dc in MOVES.values()} & free - seen
        seen |= new
        frontier.extend(new)
    return seen
