"""Win an endgame against the best defense."""

from __future__ import annotations

from dataclasses import replace

import chess

from ...tasks.games.chess_endgames import ENDGAMES, ChessEndgame, moves_to_mate
from ...tasks.rng import Rng
from ..messages import Message
from .chess_board import ChessBoardEnv


class ChessEndgamesEnv(ChessBoardEnv[ChessEndgame]):
    """King and queen, rook or pawn against king, White to move and win; Black defends optimally."""

    family = ENDGAMES
    contract = replace(ChessBoardEnv.contract, random_floor=0.15)  # random play finds some mates in one or two

    game: ChessEndgame

    def start(self, task: ChessEndgame, rng: Rng) -> list[Message]:
        self.game = task
        self.pace(self.game.turns)
        return self.start_at(chess.Board(self.game.fen))

    def reply(self) -> chess.Move:
        """Return a move that draws if there is one, else the move that delays mate longest."""
        return max(self._moves(), key=lambda move: (self._after(move), move.uci()))

    def oracle(self) -> str:
        """Return a move of the quickest mate, from the table."""
        return self.board.san(min(self._moves(), key=lambda move: (self._after(move), move.uci())))

    def best_return(self) -> float:
        """Return the best return: 1 for a win."""
        return 1.0

    def _moves(self) -> list[chess.Move]:
        return list(self.board.legal_moves)

    def _after(self, move: chess.Move) -> float:
        board = self.board.copy(stack=False)
        board.push(move)
        value = mate_distance(board)
        return float("inf") if value is None else value


def mate_distance(board: chess.Board) -> int | None:
    """Return White's moves to mate by the tables; ``None`` for a draw or for material that they do not cover."""
    king, enemy = board.king(chess.WHITE), board.king(chess.BLACK)
    others = [(at, piece) for at, piece in board.piece_map().items() if piece.piece_type != chess.KING]
    if king is None or enemy is None or len(others) != 1 or others[0][1].symbol() not in "QRP":
        return None
    at, piece = others[0]
    return moves_to_mate(piece.symbol(), king, at, enemy, white=board.turn is chess.WHITE)
