"""Winning endgames, moves in text, and the published rewards."""

from __future__ import annotations

import pytest

import turnwise as tw

chess = pytest.importorskip("chess")

from turnwise.envs.games.chess_board import legal_move  # noqa: E402
from turnwise.envs.games.chess_endgames import ChessEndgamesEnv, mate_distance  # noqa: E402


@pytest.mark.parametrize("split", list(tw.Split))
def test_the_oracle_mates_in_exactly_the_moves_of_the_table(split: tw.Split) -> None:
    env = ChessEndgamesEnv()
    for spec in env.tasks().sample(4, split=split):
        env.reset(options={"task": spec})
        total, over = 0.0, False
        while not over:
            assert env.oracle() == env.oracle()
            _, reward, terminated, truncated, info = env.step(env.oracle())
            total, over = total + reward, terminated or truncated
        assert info["success"]
        assert (total, env.turn) == (1.0, env.game.mate), "best defence lasts exactly as long as the table says"


def test_a_move_that_wastes_nothing_brings_mate_nearer_whatever_black_does() -> None:
    env = ChessEndgamesEnv()
    env.reset(options={"level": 4, "template": "KRK"}, seed=3)
    before = mate_distance(env.board)
    env.step(env.oracle())
    assert before is not None
    assert mate_distance(env.board) == before - 1


def test_illegal_moves_cost_one_and_the_same_position_is_asked_again() -> None:
    env = ChessEndgamesEnv()
    env.reset(seed=1, options={"level": 3})
    position = env.board.fen()
    for text in ("Qz9", "e2e4", "--", "0000", "", "Checkmate!", "x" * 500):
        observation, reward, terminated, truncated, _ = env.step(text)
        assert (reward, terminated, truncated) == (-1.0, False, False)
        assert env.board.fen() == position
        assert not text or position in observation.text


def test_losing_the_queen_is_a_draw_worth_nothing() -> None:
    env = ChessEndgamesEnv()
    env.reset(seed=1, options={"template": "KQK"})
    env.board = chess.Board("8/8/8/8/8/5k2/8/K5Q1 w - - 0 1")
    _, reward, terminated, _, info = env.step("Qg2+")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_stalemate_is_a_draw_worth_nothing() -> None:
    env = ChessEndgamesEnv()
    env.reset(seed=1)
    env.board = chess.Board("k7/8/1K6/8/8/8/2Q5/8 w - - 0 1")
    _, reward, terminated, _, info = env.step("Qc7")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


@pytest.mark.parametrize(
    ("text", "move"),
    [
        ("Nf3", "g1f3"),
        (" Nf3\n", "g1f3"),
        ("N f 3", "g1f3"),
        ("g1f3", "g1f3"),
        ("I play Nf3.", "g1f3"),
        ("1. e4", "e2e4"),
        ("e2 e4", "e2e4"),
        ("Nf3 or Nc3", None),
        ("Nf6", None),
        ("--", None),
        ("0000", None),
        ("", None),
        ("Nf3" * 50, None),
    ],
)
def test_a_text_names_one_legal_move_or_none(text: str, move: str | None) -> None:
    found = legal_move(chess.Board(), text)
    assert (found.uci() if found else None) == move


def test_near_misses_do_not_win() -> None:
    env = ChessEndgamesEnv()
    for seed in range(10):
        env.reset(seed=seed)
        for name, way in env.near_misses().items():
            env.reset(seed=seed)
            actions = None if callable(way) else iter(way)
            while True:
                action = way(env) if callable(way) else next(actions, None)  # type: ignore[arg-type]
                if action is None:
                    break
                _, _, terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    assert not info["success"], f"{name!r} won"
                    break


def test_the_extra_is_named_and_the_core_does_not_import_it() -> None:
    entry = next(entry for entry in tw.entries() if entry.id == "turnwise/ChessEndgames-v1")
    assert entry.extra == "chess"
