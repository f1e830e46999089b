"""Whole games of chess: the search, the opponents, Stockfish."""

from __future__ import annotations

from typing import Any

import pytest

import turnwise as tw
from turnwise.errors import InfrastructureError, UsageError
from turnwise.tasks.games.chess_game import CHESS

chess = pytest.importorskip("chess")

from turnwise.envs.games.chess_game import ChessEnv, opened  # noqa: E402
from turnwise.envs.games.chess_search import best_move, evaluate, opponent_move  # noqa: E402
from turnwise.envs.games.chess_stockfish import PLACES, ChessStockfishEnv  # noqa: E402


def installed() -> bool:
    try:
        ChessStockfishEnv()
    except UsageError:
        return False
    return True


needs_stockfish = pytest.mark.skipif(not installed(), reason=f"Stockfish is in none of {PLACES}: apt-get install it")


def won(env: ChessEnv) -> tuple[float, bool]:
    total = 0.0
    while True:
        _, reward, terminated, truncated, info = env.step(env.oracle())
        total += reward
        if terminated or truncated:
            return total, info["success"]


@pytest.mark.parametrize(
    ("fen", "best"),
    [
        ("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", "a1a8"),
        ("k7/8/1K6/8/8/8/8/6Q1 w - - 0 1", "g1g8"),
        ("3q3k/8/8/8/8/8/3R4/3K4 w - - 0 1", "d2d8"),
        ("8/P6k/8/8/8/8/8/K7 w - - 0 1", "a7a8q"),
    ],
)
def test_the_search_sees_mates_captures_and_promotions(fen: str, best: str) -> None:
    assert best_move(chess.Board(fen), 2).uci() == best


def test_the_search_leaves_the_board_as_it_was() -> None:
    board = chess.Board()
    for san in ["Nf3", "Nf6", "Ng1", "Ng8", "Nf3", "Nf6"]:
        board.push_san(san)
    before = (board.fen(), list(board.move_stack))
    move = best_move(board, 2)
    assert (board.fen(), list(board.move_stack)) == before
    assert move.uci() != "f3g1", "repeating the position is avoided"


def test_the_evaluation_is_the_same_for_both_sides() -> None:
    for fen in (chess.STARTING_FEN, "r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3"):
        board = chess.Board(fen)
        assert evaluate(board) == evaluate(board.mirror())
        score = evaluate(board)
        board.turn = not board.turn
        assert evaluate(board) == -score
    assert evaluate(chess.Board()) == 0


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_an_opponent_is_a_function_of_position_and_key(level: int) -> None:
    board = opened(CHESS.generate(CHESS.spec(3)))
    moves = {opponent_move(board, level, tw.Rng("key", i)) for i in range(6) for _ in range(2)}
    again = [opponent_move(board, level, tw.Rng("key", i)) for i in range(6)]
    assert set(again) == moves
    assert all(move in board.legal_moves for move in moves)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "split"),
    [
        (1, "train"),
        pytest.param(3, "challenge", marks=pytest.mark.shift),
        pytest.param(5, "test_entity", marks=pytest.mark.shift),
    ],
)
def test_the_oracle_wins(level: int, split: str) -> None:
    env = ChessEnv()
    env.reset(seed=5, options={"level": level, "split": split})
    assert won(env) == (1.0, True)


class Scripted(ChessEnv):
    """An opponent who plays e5 and Qh4."""

    def reply(self) -> Any:
        return self.board.parse_san("e5" if len(self.board.move_stack) == 1 else "Qh4#")


def test_being_mated_costs_one() -> None:
    env = Scripted()
    env.reset(seed=0, options={"template": "standard"})
    assert env.step("f3")[1] == 0.0
    observation, reward, terminated, truncated, info = env.step("g4")
    assert (reward, terminated, truncated, info["success"]) == (-1.0, True, False, False)
    assert "You lose" in observation.text


def test_the_published_start_and_the_detours() -> None:
    env = ChessEnv()
    observation, _ = env.reset(seed=0, options={"template": "standard"})
    assert chess.STARTING_FEN in observation.text
    env.reset(seed=0, options={"split": "challenge"})
    assert env.board.turn is chess.WHITE
    assert len(env.board.move_stack) == len(env.game.opening) + 4


def test_a_missing_engine_says_what_to_install() -> None:
    with pytest.raises(UsageError, match="apt-get install stockfish"):
        ChessStockfishEnv(engine="no-such-engine")


@needs_stockfish
@pytest.mark.slow
def test_stockfish_plays_the_same_game_twice_and_loses_to_itself() -> None:
    games = []
    for _ in range(2):
        env = ChessStockfishEnv()
        env.reset(seed=7, options={"level": 2})
        assert won(env) == (1.0, True)
        games.append([move.uci() for move in env.board.move_stack])
        env.close()
    assert games[0] == games[1]


@needs_stockfish
def test_a_closed_engine_is_started_again() -> None:
    env = ChessStockfishEnv()
    env.reset(seed=1)
    first = env.oracle()
    env.close()
    assert env.oracle() == first
    env.close()


@needs_stockfish
def test_an_engine_that_is_late_is_named_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> Any:
        raise TimeoutError

    env = ChessStockfishEnv()
    env.reset(seed=1)
    first = env.oracle()
    with monkeypatch.context() as patch:
        patch.setattr(chess.engine.SimpleEngine, "play", late)
        with pytest.raises(InfrastructureError, match=r"Stockfish \(.*\) failed: TimeoutError"):
            env.oracle()
    assert env.oracle() == first
    env.close()
