"""Openings and splits of whole chess games."""

from __future__ import annotations

import pytest

from turnwise import Split
from turnwise.tasks.games.chess_game import CHESS, HELD_OUT, OPENINGS


def test_openings_are_legal_distinct_and_leave_white_to_move() -> None:
    chess = pytest.importorskip("chess")
    positions = set()
    for moves in OPENINGS.values():
        board = chess.Board()
        for san in moves.split():
            board.push_san(san)
        assert board.turn is chess.WHITE
        positions.add(board.fen())
    assert len(positions) == len(OPENINGS)


def test_held_out_openings_and_detours_are_in_no_other_split() -> None:
    for split in Split:
        games = [CHESS.generate(spec) for spec in CHESS.sample(20, split=split)]
        held = split in (Split.TEST_TEMPLATE, Split.CHALLENGE)
        assert {game.opening in [tuple(OPENINGS[name].split()) for name in HELD_OUT] for game in games} == {held}
        assert {game.detour > 0 for game in games} == {split in (Split.TEST_ENTITY, Split.CHALLENGE)}


def test_the_published_start_is_a_template() -> None:
    assert CHESS.generate(CHESS.spec(0, template="standard")).opening == ()
