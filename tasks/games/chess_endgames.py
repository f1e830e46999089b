"""Won chess endgames of king and one piece against king, by exact moves to mate.

LMRL-Gym (arXiv 2311.18232) evaluates on positions of this kind. Here they are drawn from retrograde tables, so that a
level is a number of moves to mate and the opponent's defense is optimal.

Levels are White's moves to mate against the best defense, which is always what the oracle needs. The means are over 100
training tasks each, with both training templates; the turn limit is three times the moves to mate, at least 12:

| level | KQK  | KRK   | KPK   | oracle turns, mean | oracle turns, max |
|------:|-----:|------:|------:|-------------------:|------------------:|
|     1 |  1–2 |   1–3 |   5–8 |               1.87 |                 3 |
|     2 |  3–4 |   4–7 |  9–12 |               4.81 |                 7 |
|     3 |  5–6 |  8–10 | 13–16 |               7.23 |                10 |
|     4 |  7–8 | 11–13 | 17–20 |               9.57 |                13 |
|     5 | 9–10 | 14–16 | 21–28 |              11.68 |                16 |

The numbers of winning positions with White to move are 144,508 (queen), 175,168 (rook) and 124,960 (pawn).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..family import TaskFamily
from ..rng import Rng, unit_hash
from ..spec import Split, TaskSpec
from .endgame_tables import DRAW, endgame_table

LEVELS: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "KQK": {1: (1, 2), 2: (3, 4), 3: (5, 6), 4: (7, 8), 5: (9, 10)},
    "KRK": {1: (1, 3), 2: (4, 7), 3: (8, 10), 4: (11, 13), 5: (14, 16)},
    "KPK": {1: (5, 8), 2: (9, 12), 3: (13, 16), 4: (17, 20), 5: (21, 28)},
}
"""Fewest and most moves to mate, by material and level."""
POOLS = {Split.TRAIN: (0.0, 0.6), Split.DEV: (0.6, 0.7), Split.TEST_IID: (0.7, 0.8), Split.TEST_ENTITY: (0.8, 1.0)}
"""Share of positions of each split. Mirrored and rotated positions count as one, so that none leaks."""


@dataclass(frozen=True, slots=True)
class ChessEndgame:
    """One endgame with White to move and win.

    Args:
        piece: ``Q``, ``R`` or ``P``.
        king: white king's square, 0 (a1) to 63 (h8).
        square: piece's square.
        enemy: black king's square.
        mate: moves to mate against the best defense.
        turns: turn limit.
    """

    piece: str
    king: int
    square: int
    enemy: int
    mate: int
    turns: int

    @property
    def fen(self) -> str:
        """The position in Forsyth–Edwards notation."""
        board = [[""] * 8 for _ in range(8)]
        for square, letter in ((self.king, "K"), (self.square, self.piece), (self.enemy, "k")):
            board[square // 8][square % 8] = letter
        return f"{'/'.join(_rank(row) for row in reversed(board))} w - - 0 1"


class ChessEndgameFamily(TaskFamily[ChessEndgame]):
    """Queen and rook endings for training; ``test_entity`` has new positions, and pawn endings are held out."""

    name = "chess-endgames"
    levels = (1, 2, 3, 4, 5)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        return ("KPK",) if split in (Split.TEST_TEMPLATE, Split.CHALLENGE) else ("KQK", "KRK")

    def build(self, spec: TaskSpec, rng: Rng) -> ChessEndgame:
        piece = spec.template[1]
        fewest, most = LEVELS[spec.template][spec.level]
        positions = _between(piece, fewest, most)
        low, high = POOLS[_pool(spec.split)]
        while True:  # every pool has at least a tenth of thousands of positions
            place = int(positions[rng.randrange(len(positions))])
            king, square, enemy = place // 4096, place // 64 % 64, place % 64
            if low <= unit_hash("endgame", piece, *canonical(piece, king, square, enemy)) < high:
                mate = int(endgame_table(piece).white[king, square, enemy])
                return ChessEndgame(piece, king, square, enemy, mate, max(12, 3 * mate))


ENDGAMES = ChessEndgameFamily()


def moves_to_mate(piece: str, king: int, square: int, enemy: int, *, white: bool) -> int | None:
    """Return White's moves to mate, or ``None`` if the best defense draws.

    Args:
        piece: ``Q``, ``R`` or ``P``.
        king: white king's square.
        square: piece's square.
        enemy: black king's square.
        white: whether White is to move.
    """
    table = endgame_table(piece)
    value = int((table.white if white else table.black)[king, square, enemy])
    return None if value == DRAW else value


def canonical(piece: str, *squares: int) -> tuple[int, ...]:
    """Return one form for all mirror images and rotations of a position; a pawn allows only swapping left and right."""
    return min(tuple(image) for image in _images(piece, squares))


def _pool(split: Split) -> Split:
    """Return the pool of a split: held-out templates may use any positions except those reserved for new positions."""
    held = {Split.TEST_TEMPLATE: Split.TRAIN, Split.CHALLENGE: Split.TEST_ENTITY}
    return held.get(split, split)


def _images(piece: str, squares: tuple[int, ...]) -> Iterator[list[int]]:
    for flip in (0, 7):
        mirrored = [square ^ flip for square in squares]
        yield mirrored
        if piece != "P":
            yield [square ^ 56 for square in mirrored]
            for image in (mirrored, [square ^ 56 for square in mirrored]):
                yield [square % 8 * 8 + square // 8 for square in image]


@cache
def _between(piece: str, fewest: int, most: int) -> NDArray[np.int32]:
    """Return positions (as numbers) with White to move and a mate in ``fewest`` to ``most``; fifteen ranges exist."""
    table = endgame_table(piece).white
    return np.flatnonzero((table >= fewest) & (table <= most)).astype(np.int32)


def _rank(row: list[str]) -> str:
    text, empty = "", 0
    for letter in row:
        if letter:
            text += (str(empty) if empty else "") + letter
            empty = 0
        else:
            empty += 1
    return text + (str(empty) if empty else "")
