"""Whole games of chess: their openings, and Black's strength.

The published game (LMRL-Gym, arXiv 2311.18232) starts from the initial position against Stockfish limited to Elo
1200. Here games start after a short named opening, so that held-out openings exist; ``standard`` is the published
start. Levels are Black's strength:

| level | Black                                                         | oracle turns, mean | oracle turns, max |
|------:|---------------------------------------------------------------|-------------------:|------------------:|
|     1 | any legal move                                                |               18.1 |                25 |
|     2 | 6 of 10 moves any, else the richest capture                   |               17.7 |                38 |
|     3 | the richest capture, else any                                 |               18.3 |                36 |
|     4 | a search of one half-move and captures, 35 % of its moves any |               28.4 |                42 |
|     5 | the same, 15 % of its moves any                               |               29.9 |                61 |

Measured over 12 training tasks each with the built-in opponents; the oracle won every game, also at level 5 over 30
tasks of every split (the longest game had 64 turns). This is not a proof: the oracle may fail to win the game of some
seed. Against an earlier level 5 that searched two half-moves, it won 10 of 12. The limit is 200 turns (LMRL-Gym: 400).
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
"""Moves of each opening in algebraic notation; White is to move after each."""
HELD_OUT = ("nimzo-indian", "dutch", "petrov", "alekhine", "benoni", "vienna")
"""Openings that only ``test_template`` and ``challenge`` use."""
DETOURS = {Split.TEST_ENTITY: 4, Split.CHALLENGE: 4}
"""Random half-moves after the opening, for positions from which no other split starts."""


@dataclass(frozen=True, slots=True)
class ChessGame:
    """One game in which the agent plays White.

    Args:
        opening: moves already played, in algebraic notation.
        detour: number of random half-moves that follow, chosen with ``seed``.
        level: Black's strength, 1 to 5.
        seed: seed of Black's random choices.
        turns: turn limit.
    """

    opening: tuple[str, ...]
    detour: int
    level: int
    seed: str
    turns: int = TURNS


class ChessGameFamily(TaskFamily[ChessGame]):
    """Opponents of five strengths after named openings; some openings and some unusual positions are held out."""

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
