"""Whole games of chess: openings to start from, and how strong Black is.

The published game (LMRL-Gym, arXiv 2311.18232) starts from the initial position against Stockfish limited to Elo
1200. Here games start after a short named opening, so that held-out openings exist; ``standard`` is the published
start. Levels are Black's strength:

=====  =============================================  ==================  =================
level  Black                                          oracle turns, mean  oracle turns, max
=====  =============================================  ==================  =================
1      any legal move                                               18.1                 25
2      6 of 10 moves any, else the richest capture                  17.7                 38
3      the richest capture, else any                                18.3                 36
4      a search of one half-move and captures, 35 %                 28.4                 42
       of its moves any
5      the same, 15 % of its moves any                              29.9                 61
=====  =============================================  ==================  =================

Measured over 12 training tasks each with the built-in opponents, and won every time; also at level 5 over 30 tasks of
every split (the longest game had 64 turns). That is a measurement and no proof: a seed may exist whose game the
oracle does not win. Against a level 5 that searched two half-moves, tried first, it won 10 of 12. The limit is 200
turns (LMRL-Gym: 400).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..family import TaskFamily
from ..rng import Rng
from ..spec import Split, TaskSpec

TURNS = 200
OPENINGS: Mapping[str, str] = {
    "standard": "",
    "italian": "e4 e5 Nf3 Nc6 Bc4 Bc5",
    "ruy-lopez": "e4 e5 Nf3 Nc6 Bb5 a6",
    "scotch": "e4 e5 Nf3 Nc6 d4 exd4",
    "french": "e4 e6 d4 d5",
    "caro-kann": "e4 c6 d4 d5",
    "sicilian": "e4 c5 Nf3 d6",
    "queens-gambit": "d4 d5 c4 e6",
    "slav": "d4 d5 c4 c6",
    "kings-indian": "d4 Nf6 c4 g6",
    "english": "c4 e5",
    "reti": "Nf3 d5",
    "pirc": "e4 d6 d4 Nf6",
    "scandinavian": "e4 d5 exd5 Qxd5",
    "nimzo-indian": "d4 Nf6 c4 e6 Nc3 Bb4",
    "dutch": "d4 f5",
    "petrov": "e4 e5 Nf3 Nf6",
    "alekhine": "e4 Nf6 e5 Nd5",
    "benoni": "d4 Nf6 c4 c5",
    "vienna": "e4 e5 Nc3 Nf6",
}
"""Opening to its moves in algebraic notation; White is to move after each."""
HELD_OUT = ("nimzo-indian", "dutch", "petrov", "alekhine", "benoni", "vienna")
"""Openings of ``test_template`` and ``challenge`` only."""
DETOURS = {Split.TEST_ENTITY: 4, Split.CHALLENGE: 4}
"""Random moves of both sides after the opening: positions that no other split begins from."""


@dataclass(frozen=True, slots=True)
class ChessGame:
    """One game in which the agent has White.

    Args:
        opening: the moves already played, in algebraic notation.
        detour: how many random half-moves follow, chosen with ``seed``.
        level: Black's strength, 1 to 5.
        seed: where Black's random choices come from.
        turns: the turn limit.
    """

    opening: tuple[str, ...]
    detour: int
    level: int
    seed: str
    turns: int = TURNS


class ChessGameFamily(TaskFamily[ChessGame]):
    """Opponents of five strengths after named openings; some openings, and odd positions, are held out."""

    name = "chess"
    levels = (1, 2, 3, 4, 5)
    splits = tuple(Split)

    def templates(self, split: Split) -> tuple[str, ...]:
        if split in (Split.TEST_TEMPLATE, Split.CHALLENGE):
            return HELD_OUT
        return tuple(name for name in OPENINGS if name not in HELD_OUT)

    def build(self, spec: TaskSpec, rng: Rng) -> ChessGame:
        opening = tuple(OPENINGS[spec.template].split())
        return ChessGame(opening, DETOURS.get(spec.split, 0), spec.level, spec.digest)


CHESS = ChessGameFamily()
