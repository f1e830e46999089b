"""The endgame tables against known results and against python-chess, and the family's splits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Split
from turnwise.tasks.games.chess_endgames import ENDGAMES, LEVELS, POOLS, canonical, moves_to_mate
from turnwise.tasks.games.endgame_tables import DRAW, endgame_table
from turnwise.tasks.rng import unit_hash

SQUARE = st.integers(0, 63)


@pytest.mark.parametrize(("piece", "longest"), [("Q", 10), ("R", 16), ("P", 28)])
def test_the_longest_mates_are_the_known_ones(piece: str, longest: int) -> None:
    assert endgame_table(piece).longest == longest


@given(st.sampled_from("QRP"), st.lists(SQUARE, min_size=3, max_size=3, unique=True), st.booleans())
def test_every_value_follows_from_the_moves(piece: str, squares: list[int], white: bool) -> None:
    """A position's value is one more than White's best reply, or Black's longest; python-chess makes the moves."""
    chess = pytest.importorskip("chess")
    king, at, enemy = squares
    board = chess.Board(None)
    for square, letter in ((king, "K"), (at, piece), (enemy, "k")):
        board.set_piece_at(square, chess.Piece.from_symbol(letter))
    board.turn = white
    mine = moves_to_mate(piece, king, at, enemy, white=white)
    if not board.is_valid():
        assert mine is None, "an illegal position is not won"
        return
    after = []
    for move in board.legal_moves:
        if move.promotion in (chess.KNIGHT, chess.BISHOP):
            continue  # never wins by itself
        board.push(move)
        rest = [(s, p) for s, p in board.piece_map().items() if p.piece_type != chess.KING]
        name = rest[0][1].symbol() if rest else ""
        kings = board.king(chess.WHITE), board.king(chess.BLACK)
        after.append(moves_to_mate(name, kings[0], rest[0][0], kings[1], white=not white) if rest else None)
        board.pop()
    won = [value for value in after if value is not None]
    if white:
        assert mine == (min(won) + 1 if won else None)
    elif not after:
        assert mine == (0 if board.is_check() else None)
    else:
        assert mine == (max(won) if len(won) == len(after) else None)


@pytest.mark.parametrize("split", list(Split))
def test_tasks_are_won_within_their_level(split: Split) -> None:
    for spec in ENDGAMES.sample(20, split=split):
        game = ENDGAMES.generate(spec)
        fewest, most = LEVELS[spec.template][spec.level]
        assert fewest <= game.mate <= most
        assert moves_to_mate(game.piece, game.king, game.square, game.enemy, white=True) == game.mate
        assert game.turns >= game.mate


def test_no_position_nor_its_mirror_image_is_in_two_splits() -> None:
    seen: dict[tuple[object, ...], Split] = {}
    for split in POOLS:
        for spec in ENDGAMES.sample(60, split=split, level=1):
            game = ENDGAMES.generate(spec)
            key = (game.piece, *canonical(game.piece, game.king, game.square, game.enemy))
            assert seen.setdefault(key, split) is split
    assert max(high for _, high in POOLS.values()) == 1.0


@given(st.sampled_from("QRP"), SQUARE, SQUARE, SQUARE)
def test_mirror_images_share_their_canonical_form_and_value(piece: str, king: int, at: int, enemy: int) -> None:
    mirrored = [square ^ 7 for square in (king, at, enemy)]
    assert canonical(piece, king, at, enemy) == canonical(piece, *mirrored)
    table = endgame_table(piece).white
    assert table[king, at, enemy] == table[tuple(mirrored)]
    if piece != "P":
        turned = [square % 8 * 8 + square // 8 for square in (king, at, enemy)]
        assert canonical(piece, king, at, enemy) == canonical(piece, *turned)
        assert table[king, at, enemy] == table[tuple(turned)]


def test_the_notation_is_read_by_python_chess() -> None:
    chess = pytest.importorskip("chess")
    for spec in ENDGAMES.sample(20):
        game = ENDGAMES.generate(spec)
        board = chess.Board(game.fen)
        assert board.is_valid()
        assert board.king(chess.WHITE) == game.king
        assert board.king(chess.BLACK) == game.enemy
        assert board.piece_at(game.square).symbol() == game.piece
    assert 0.0 <= unit_hash("endgame", "Q", 1, 2, 3) < 1.0
    assert moves_to_mate("Q", 0, 0, 0, white=True) is None
    assert DRAW == 255
