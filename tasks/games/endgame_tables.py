"""Retrograde analysis of king and one piece against king: exact moves to mate, with numpy and no chess library.

Squares are 0 (a1) to 63 (h8), rank by rank. A table is indexed ``[white king, piece, black king]`` and contains White's
moves to mate; ``DRAW`` marks everything else. White is always the stronger side. Tests compare the longest mates with
the known ones: queen 10, rook 16, pawn 28 moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DRAW = 255
"""Value of a position that is not won (or not legal)."""
Table = NDArray[np.uint8]
Mask = NDArray[np.bool_]
KING = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
STRAIGHT = [(1, 0), (-1, 0), (0, 1), (0, -1)]
SLIDES = {"Q": KING, "R": STRAIGHT, "P": []}
SQUARES = np.arange(64)


@dataclass(frozen=True, eq=False, slots=True)
class EndgameTable:
    """All positions of one material.

    Args:
        white: moves to mate with White to move, ``uint8[64, 64, 64]``.
        black: moves to mate with Black to move, ``uint8[64, 64, 64]``; 0 is checkmate.
    """

    white: Table
    black: Table

    @property
    def longest(self) -> int:
        """The longest forced mate, in White's moves."""
        return int(self.white[self.white != DRAW].max())


@lru_cache(maxsize=3)
def endgame_table(piece: str) -> EndgameTable:
    """Return the table of king and ``piece`` (``Q``, ``R`` or ``P``) against king; takes about a second, once."""
    near = _king_moves()
    checks = _attacks(piece)
    legal_black, legal_white = _legal(piece, near, checks)
    moves, mated, stuck = _black_moves(near, checks, legal_black)
    white = np.full((64, 64, 64), DRAW, np.uint8)
    black = np.where(mated, 0, DRAW).astype(np.uint8)
    promoted = [endgame_table(name).black for name in "QR"] if piece == "P" else []
    furthest = max((int(table[table != DRAW].max()) for table in promoted), default=0)
    n = 0
    while True:
        n += 1
        reached = _white_reaches(piece, black == n - 1, [table == n - 1 for table in promoted])
        won = legal_white & (white == DRAW) & reached
        white[won] = n
        known = white != DRAW
        safe = np.zeros_like(mated)
        for (df, dr), allowed in moves:
            to = _shift(df, dr)
            inside = to >= 0
            # Black escapes by a move out of the won positions, and by taking the piece, which is never won.
            safe[:, :, inside] |= allowed[:, :, inside] & ~known[:, :, to[inside]]
        lost = legal_black & (black == DRAW) & ~safe & ~stuck
        black[lost] = n
        if not won.any() and not lost.any() and n > furthest + 1:
            return EndgameTable(white, black)


def _shift(df: int, dr: int) -> NDArray[np.intp]:
    """Return, for each square, the one ``df`` files and ``dr`` ranks away, or −1 outside of the board."""
    file, rank = SQUARES % 8 + df, SQUARES // 8 + dr
    return np.where((file >= 0) & (file < 8) & (rank >= 0) & (rank < 8), rank * 8 + file, -1)


def _king_moves() -> Mask:
    near = np.zeros((64, 64), bool)
    for direction in KING:
        to = _shift(*direction)
        near[SQUARES[to >= 0], to[to >= 0]] = True
    return near


def _attacks(piece: str) -> Mask:
    """Return whether the piece attacks a square, ``[white king, piece, square]``; only the white king blocks it."""
    found = np.zeros((64, 64, 64), bool)
    if piece == "P":
        for df in (-1, 1):
            to = _shift(df, 1)
            found[:, SQUARES[to >= 0], to[to >= 0]] = True
    for direction in SLIDES[piece]:
        to = _shift(*direction)
        for start in range(64):
            open_, square = np.ones(64, bool), int(to[start])
            while square >= 0:
                found[:, start, square] |= open_
                open_[square] = False
                square = int(to[square])
    return found


def _legal(piece: str, near: Mask, checks: Mask) -> tuple[Mask, Mask]:
    """Return the positions that can occur with Black to move, and those with White to move."""
    king, other, enemy = np.ogrid[:64, :64, :64]
    legal = (king != other) & (other != enemy) & (king != enemy) & ~near[:, None, :]
    if piece == "P":
        legal &= (other >= 8) & (other < 56)
    return legal, legal & ~checks


def _black_moves(near: Mask, checks: Mask, legal: Mask) -> tuple[list[tuple[tuple[int, int], Mask]], Mask, Mask]:
    """Return the black king's legal moves by direction, the checkmates, and the positions without a legal move."""
    # Once the piece is taken, only the white king attacks; a protected piece cannot be taken.
    guarded = near[:, None, :] | checks
    moves, movable = [], np.zeros_like(legal)
    for df, dr in KING:
        to = _shift(df, dr)
        inside = to >= 0
        allowed = np.zeros_like(legal)
        target = to[inside]
        king, other, _ = np.ogrid[:64, :64, : len(target)]
        takes = other == target
        free = ~guarded[:, :, target] & (king != target)
        allowed[:, :, inside] = legal[:, :, inside] & np.where(takes, ~near[:, None, target], free)
        movable |= allowed
        moves.append(((df, dr), allowed))
    stuck = legal & ~movable
    return moves, stuck & checks, stuck


def _white_reaches(piece: str, goal: Mask, promoted: list[Mask]) -> Mask:
    """Return positions from which a move of White leads into ``goal`` (or, by promotion, into one of ``promoted``)."""
    reached = np.zeros_like(goal)
    for direction in KING:
        to = _shift(*direction)
        inside = to >= 0
        reached[inside] |= goal[to[inside]]
    king, other, enemy = np.ogrid[:64, :64, :64]
    free = (king != other) & (other != enemy)
    for direction in SLIDES[piece]:
        to = _shift(*direction)
        inside = to >= 0
        along = np.zeros_like(goal)
        for _ in range(7):
            along[:, inside] = free[:, to[inside]] & (goal[:, to[inside]] | along[:, to[inside]])
        reached |= along
    if piece == "P":
        reached |= _pawn_reaches(goal, promoted, free)
    return reached


def _pawn_reaches(goal: Mask, promoted: list[Mask], free: Mask) -> Mask:
    reached = np.zeros_like(goal)
    reached[:, 8:48] |= goal[:, 16:56]
    reached[:, 8:16] |= free[:, 16:24] & goal[:, 24:32]
    for table in promoted:
        reached[:, 48:56] |= free[:, 56:64] & table[:, 56:64]
    return reached
