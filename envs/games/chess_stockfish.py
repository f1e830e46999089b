"""Play whole games of chess against Stockfish, where it is installed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import chess
import chess.engine

from ...errors import InfrastructureError, UsageError
from ...tasks.rng import Rng
from ..fork import Forks
from .chess_game import ChessEnv

PLACES = "/usr/games:/usr/local/bin:/usr/bin:/opt/homebrew/bin"
"""Folders in which to look for Stockfish, besides the search path."""
NODES = {1: 50, 2: 100, 3: 200, 4: 500, 5: 1000}
"""Positions that Stockfish may search, per level."""
BLUNDERS = {1: 0.8, 2: 0.6, 3: 0.45, 4: 0.3, 5: 0.2}
"""How often Stockfish plays a random legal move instead, per level."""
ORACLE_NODES = 20_000
ENGINE_SECONDS = 60.0
"""Seconds for an answer of Stockfish. It takes a fraction of one, but 10 are too few on a busy machine."""


class ChessStockfishEnv(ChessEnv):
    """Chess against Stockfish, limited by the level to a number of nodes and handicapped by a share of random moves.

    Stockfish's own limits (``UCI_Elo``, ``Skill Level``) draw random numbers from the clock. Nodes do not, so that a
    task is the same game every time. One engine process serves one environment.

    Args:
        engine: name or path of the program.
        max_turns: turn limit; omitted, the task's own.
        render_mode: Gymnasium's render mode.

    Raises:
        UsageError: the program does not exist.
    """

    forks = Forks.REPLAY
    contract = replace(
        ChessEnv.contract,
        exempt={
            "no_clock": "python-chess waits for the engine's process with timeouts; Stockfish's moves depend on nodes"
        },
    )

    _engine: chess.engine.SimpleEngine | None = None

    def __init__(
        self, *, engine: str = "stockfish", max_turns: int | None = None, render_mode: str | None = None
    ) -> None:
        super().__init__(max_turns=max_turns, render_mode=render_mode)
        program = shutil.which(engine) or shutil.which(engine, path=PLACES)
        if program is None:
            raise UsageError(
                f"Stockfish ({engine!r}) is not installed: apt-get install stockfish, or name it with engine=PATH"
            )
        self.program = program

    def reply(self) -> chess.Move:
        """Return Stockfish's move, or now and then a random legal one."""
        rng = Rng("stockfish", self.game.seed, self.board.fen())
        if rng.random() < BLUNDERS[self.game.level]:
            return rng.pick(sorted(self.board.legal_moves, key=chess.Move.uci))
        return self._best(NODES[self.game.level])

    def oracle(self) -> str:
        """Return Stockfish's own move, with many times the opponent's nodes and no blunders."""
        return self.board.san(self._best(ORACLE_NODES))

    def close(self) -> None:
        """End the engine's process."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        super().close()

    def __del__(self) -> None:
        self.close()

    def _best(self, nodes: int) -> chess.Move:
        """Return the engine's move. Every request is a new game, so that the engine's memory does not matter."""
        try:
            if self._engine is None:
                self._engine = chess.engine.SimpleEngine.popen_uci(self.program, timeout=ENGINE_SECONDS)
                self._engine.configure({"Threads": 1, "Hash": 16})
            found = self._engine.play(self.board, chess.engine.Limit(nodes=nodes), game=object())
        except (chess.engine.EngineError, OSError, TimeoutError) as error:
            self.close()
            why = str(error) or type(error).__name__
            raise InfrastructureError(f"Stockfish ({self.program}) failed: {why}") from error
        if found.move is None:
            raise InfrastructureError(f"Stockfish ({self.program}) answered no move in {self.board.fen()}")
        return found.move

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}
