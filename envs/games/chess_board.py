"""The base of all chess environments: a python-chess board, moves in text, and the published rewards.

Rewards (LMRL-Gym, arXiv 2311.18232): +1 for a win, −1 for a loss, 0 for a draw and for every other legal move. Text
that is not a legal move costs −1, and the agent moves again. This module needs the extra ``turnwise[chess]``.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping

import chess

from ...tasks.rng import Rng
from ...tasks.score import Score
from ..base import NearMiss, TaskT
from ..contract import Contract
from ..messages import Action, Message, clip, message
from ..step import Step, running, success, termination
from .paced import PacedEnv

RULES = "You play White. On each turn, answer with one legal move in standard algebraic notation, for example Nf3."
ILLEGAL_REWARD = -1.0
LISTED = 6
"""With at most this many pieces on the board, the observation also lists each of them."""


class ChessBoardEnv(PacedEnv[TaskT]):
    """A game of chess in which the agent plays White. Subclasses define the start position and Black's moves."""

    blocking = False
    unparsed_reward = ILLEGAL_REWARD
    contract = Contract(max_observation_chars=1000)

    board: chess.Board

    @abstractmethod
    def reply(self) -> chess.Move:
        """Return Black's move in the current position; a pure function of the task and the moves so far."""
        raise NotImplementedError

    def start_at(self, board: chess.Board) -> list[Message]:
        """Return the first observation of a game that starts at ``board``."""
        self.board = board
        return [message("system", RULES), message("user", self.look())]

    def act(self, action: Action) -> Step:
        action.word()
        move = legal_move(self.board, action.text)
        if move is None:
            text = f"That is not a legal move: {clip(action.text)!r}. {self.look()}"
            return running(text, ILLEGAL_REWARD, illegal=True)
        self.board.push(move)
        if self.board.is_game_over():
            return self._end("Your move")
        answer = self.reply()
        played = f"Black plays {self.board.san(answer)}."
        self.board.push(answer)
        return self._end(played) if self.board.is_game_over() else running(f"{played} {self.look()}")

    def look(self) -> str:
        """Describe the position in its notation, and list its pieces if there are few."""
        pieces = self.board.piece_map()
        text = f"Position: {self.board.fen()}."
        if len(pieces) > LISTED:
            return text
        sides = {name: _listed(pieces, color) for name, color in (("White", chess.WHITE), ("Black", chess.BLACK))}
        return f"{text} White: {sides['White']}. Black: {sides['Black']}."

    def judge(self) -> Score:
        """Score the episode; only a win is a success."""
        return Score(success=self.board.is_checkmate() and self.board.turn is chess.BLACK)

    def random_action(self, rng: Rng) -> str:
        """Return a random legal move."""
        return self.board.san(rng.pick(sorted(self.board.legal_moves, key=chess.Move.uci)))

    def state_key(self) -> str:
        """Return a key for everything that affects the rest of the game."""
        return " ".join(self.board.fen().split()[:4])

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: claiming a win, moving Black's pieces, passing, and playing the first legal move."""
        return {
            "claims checkmate": ["Checkmate! I win.", "1-0", "#", "Black resigns."],
            "passes": ["--", "0000", "pass", "null"],
            "names an impossible move": ["Qxk", "Kxe8", "a1a1", "O-O-O-O", "e9"],
            "shuffles its king": shuffle,
        }

    def render(self) -> str:
        """Render the episode and the board."""
        return f"{super().render()}\n{self.board}"

    def _end(self, played: str) -> Step:
        if self.board.is_checkmate():
            if self.board.turn is chess.BLACK:
                return success(f"{played} is checkmate. You win.")
            return termination(f"{played} That is checkmate. You lose.", -1.0, Score(success=False))
        return termination(f"{played} The game is drawn.", 0.0, Score(success=False))


def legal_move(board: chess.Board, text: str) -> chess.Move | None:
    """Return the one legal move that a text names, in algebraic (``Nf3``) or coordinate (``g1f3``) notation.

    Characters may be spaced as in LMRL-Gym ("N f 3"), and words may surround the move if the text names only one.
    """
    for whole in (text.strip(), re.sub(r"\s+", "", text)):
        move = _parsed(board, whole)
        if move is not None:
            return move
    words = re.findall(r"[A-Za-z][\w=+#-]*", text)
    named = {move for word in words[:40] if (move := _parsed(board, word)) is not None}
    return named.pop() if len(named) == 1 else None


def shuffle(env: ChessBoardEnv) -> str:
    """Play without a plan: a king move if there is one, else the first legal move, and never mate."""
    moves = sorted(env.board.legal_moves, key=chess.Move.uci)
    quiet = [move for move in moves if not _mates(env.board, move)]
    kings = [move for move in quiet if env.board.piece_type_at(move.from_square) == chess.KING]
    return env.board.san((kings or quiet or moves)[0]) if quiet else "pass"


def _mates(board: chess.Board, move: chess.Move) -> bool:
    board = board.copy(stack=False)
    board.push(move)
    return board.is_checkmate()


def _parsed(board: chess.Board, text: str) -> chess.Move | None:
    if len(text) > 10:
        return None
    for parse in (board.parse_san, board.parse_uci):
        try:
            move = parse(text)
        except ValueError:
            continue
        if move in board.legal_moves:  # python-chess also reads the null move
            return move
    return None


def _listed(pieces: Mapping[int, chess.Piece], color: chess.Color) -> str:
    mine = [(piece.symbol().upper(), chess.square_name(at)) for at, piece in pieces.items() if piece.color == color]
    return " ".join(letter.replace("P", "") + at for letter, at in sorted(mine)) or "nothing"
