"""A small chess player: alpha–beta search over material and placement, and weaker ones made from it.

The evaluation is Tomasz Michniewski's "simplified evaluation function" in spirit: piece values plus a bonus for
central squares and advanced pawns. Everything is a pure function of the position (and of a key, for random choices).
"""

from __future__ import annotations

from functools import lru_cache

import chess

from ...tasks.rng import Rng
from .chess_endgames import mate_distance

VALUES = {chess.PAWN: 100, chess.KNIGHT: 320, chess.BISHOP: 330, chess.ROOK: 500, chess.QUEEN: 900, chess.KING: 0}
MATE = 100_000
BLUNDERS = {1: 1.0, 2: 0.6, 3: 0.0, 4: 0.35, 5: 0.15}
"""How often an opponent of a level plays a random legal move instead of the best that it sees."""
QUIET = 4
"""Half-moves beyond the depth for which captures are followed."""


def best_move(board: chess.Board, depth: int) -> chess.Move:
    """Return the best move by a search of ``depth`` half-moves; a repetition only if all moves repeat a position.

    Args:
        board: the position, with its history (for repetitions).
        depth: half-moves to look ahead; captures are followed further.
    """
    repeating = {move for move in board.legal_moves if _repeats(board, move)}
    fen = " ".join(board.fen().split()[:4])
    allowed = tuple(sorted(move.uci() for move in board.legal_moves if move not in repeating))
    return chess.Move.from_uci(_searched(fen, depth, allowed))


def opponent_move(board: chess.Board, level: int, key: Rng) -> chess.Move:
    """Return the move of an opponent of a level: 1 random, 2 careless, 3 greedy, 4 and 5 a search with blunders."""
    moves = sorted(board.legal_moves, key=chess.Move.uci)
    if key.random() < BLUNDERS[level]:
        return key.pick(moves)
    if level <= 3:
        gains = [_gain(board, move) for move in moves]
        return key.pick([move for move, gain in zip(moves, gains, strict=True) if gain == max(gains)])
    return best_move(board, 1)


def evaluate(board: chess.Board) -> int:
    """Return the evaluation for the side to move, in centipawns."""
    white, black = board.occupied_co[chess.WHITE], board.occupied_co[chess.BLACK]
    score = 0
    for mask, placed in zip(
        (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings), _worths(), strict=True
    ):
        score += sum(placed[square] for square in chess.scan_forward(mask & white))
        score -= sum(placed[square ^ 56] for square in chess.scan_forward(mask & black))
    return (score if board.turn else -score) + _driving(board)


@lru_cache(maxsize=1)
def _worths() -> tuple[tuple[int, ...], ...]:
    """Return the value of each kind of piece, pawn to king, on each square, from White's side."""
    return tuple(tuple(VALUES[kind] + _place(kind, square) for square in chess.SQUARES) for kind in VALUES)


@lru_cache(maxsize=4096)
def _searched(fen: str, depth: int, allowed: tuple[str, ...]) -> str:
    board = chess.Board(fen)
    moves = [chess.Move.from_uci(move) for move in allowed] or list(board.legal_moves)
    best, alpha = moves[0], -2 * MATE
    for move in _ordered(board, moves):
        board.push(move)
        score = -_search(board, depth - 1, -2 * MATE, -alpha)
        board.pop()
        if score > alpha:
            best, alpha = move, score
    return best.uci()


def _search(board: chess.Board, depth: int, alpha: int, beta: int) -> int:
    moves = list(board.legal_moves)
    if not moves:
        return -MATE - depth if board.is_check() else 0
    if board.is_insufficient_material():
        return 0
    exact = mate_distance(board) if board.occupied.bit_count() == 3 else None
    if exact is not None:
        return (MATE // 2 - exact) * (1 if board.turn is chess.WHITE else -1)
    if depth <= 0:
        still = evaluate(board)
        if still >= beta or depth <= -QUIET:
            return still
        alpha = max(alpha, still)
        moves = [move for move in moves if board.is_capture(move) or move.promotion]
    for move in _ordered(board, moves):
        board.push(move)
        score = -_search(board, depth - 1, -beta, -alpha)
        board.pop()
        if score >= beta:
            return score
        alpha = max(alpha, score)
    return alpha


def _ordered(board: chess.Board, moves: list[chess.Move]) -> list[chess.Move]:
    """Sort promising moves first, so that alpha–beta can prune."""
    return sorted(moves, key=lambda move: (-_gain(board, move), move.uci()))


def _gain(board: chess.Board, move: chess.Move) -> int:
    """Return the material that a move wins at once, in centipawns."""
    taken = board.piece_type_at(move.to_square)
    if taken is None and board.is_en_passant(move):
        taken = chess.PAWN
    gain = 10 * VALUES[taken] - VALUES[board.piece_type_at(move.from_square) or chess.KING] // 10 if taken else 0
    return gain + (VALUES[move.promotion] if move.promotion else 0)


def _place(kind: int, square: int) -> int:
    """Return the bonus of a piece for a good square, from White's side."""
    file, rank = chess.square_file(square), chess.square_rank(square)
    central = 6 - int(abs(file - 3.5) + abs(rank - 3.5))
    if kind == chess.PAWN:
        return rank * rank * 3 + (10 if 2 <= file <= 5 and rank >= 3 else 0)
    if kind == chess.KING:
        return -5 * central
    return central * (6 if kind in (chess.KNIGHT, chess.BISHOP) else 2)


def _driving(board: chess.Board) -> int:
    """Score the stronger side's progress in an endgame: the other king at the edge, its own king nearby."""
    if board.occupied.bit_count() > 8:
        return 0
    mine, other = (sum(VALUES[p] * len(board.pieces(p, c)) for p in VALUES) for c in (board.turn, not board.turn))
    if abs(mine - other) < 300:
        return 0
    strong = board.turn if mine > other else not board.turn
    hunter, prey = board.king(strong), board.king(not strong)
    if hunter is None or prey is None:
        return 0
    edge = abs(chess.square_file(prey) - 3.5) + abs(chess.square_rank(prey) - 3.5)
    bonus = int(20 * edge) - 8 * chess.square_manhattan_distance(hunter, prey)
    return bonus if mine > other else -bonus


def _repeats(board: chess.Board, move: chess.Move) -> bool:
    if board.halfmove_clock < 3 or board.is_zeroing(move):
        return False  # nothing can have occurred before
    board.push(move)
    repeats = board.is_repetition(2)
    board.pop()
    return repeats
