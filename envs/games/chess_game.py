"""Play whole games of chess against a built-in opponent."""

from __future__ import annotations

import chess

from ...tasks.games.chess_game import CHESS, ChessGame
from ...tasks.rng import Rng
from ..messages import Message
from .chess_board import ChessBoardEnv
from .chess_search import best_move, opponent_move

DEPTH = 2


class ChessEnv(ChessBoardEnv[ChessGame]):
    """Chess from named openings against opponents of five strengths, from random moves to two half-moves deep."""

    family = CHESS
    blocking = True

    game: ChessGame

    def start(self, task: ChessGame, rng: Rng) -> list[Message]:
        self.game = task
        self.pace(self.game.turns)
        return self.start_at(opened(self.game))

    def reply(self) -> chess.Move:
        """Return the built-in opponent's move; its random choices depend only on the task and the position."""
        return opponent_move(self.board, self.game.level, Rng("chess", self.game.seed, self.board.fen()))

    def oracle(self) -> str:
        """Return the best move by a search of two half-moves and further captures, without Black's next move."""
        return self.board.san(best_move(self.board, DEPTH))

    def best_return(self) -> float:
        """Return the best return: 1 for a win."""
        return 1.0


def opened(game: ChessGame) -> chess.Board:
    """Return the board after the opening and its detour, with White to move and no immediate win or loss."""
    for attempt in range(100):
        board = chess.Board()
        for san in game.opening:
            board.push_san(san)
        rng = Rng("detour", game.seed, attempt)
        for _ in range(game.detour):
            board.push(rng.pick(sorted(board.legal_moves, key=chess.Move.uci)))
            if board.is_game_over():
                break
        else:
            return board
    raise AssertionError(f"a hundred detours of {game} all ended the game")  # pragma: no cover - odds beyond count
