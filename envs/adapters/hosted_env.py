"""``HostedEnv``: an environment whose game runs in the child process of its package."""

from __future__ import annotations

from typing import Any, ClassVar

from ...errors import UsageError
from ..base import TurnEnv
from ..contract import Contract
from ..fork import Forks
from .peer_process import HostedGame, NotSentError

USUAL_LIMIT = 100
"""Turns of a game whose solution is short."""
START_SECONDS = 60.0
"""Most seconds of a reset: the first one starts a process, and a game may be compiled."""


class HostedEnv(TurnEnv):
    """An environment that plays a game of another package, which stays in a process of its own.

    Args:
        max_turns: limit of turns, which truncates (default: 100, or more where a solution is long).
        render_mode: Gymnasium's render mode.
    """

    child: ClassVar[str]
    """Module below ``turnwise`` that serves the games, as ``peer_child.serve`` does."""
    forks = Forks.REPLAY
    max_turns_truncates = True
    contract = Contract(max_seconds=START_SECONDS)

    def __init__(self, *, max_turns: int | None = None, render_mode: str | None = None) -> None:
        self._most_turns = max_turns
        super().__init__(max_turns=USUAL_LIMIT if max_turns is None else max_turns, render_mode=render_mode)

    def close(self) -> None:
        """End the game, and its process if it was the last one there."""
        if self._game is not None:
            self._game.close()
            self._game = None
        super().close()

    # -- for adapters ---------------------------------------------------------------------------------------------

    _game: HostedGame | None = None
    _points: int = 0
    """The game's score so far, which ``start`` sets."""

    def _begin_game(self, **arguments: Any) -> Any:
        """Call the game's ``begin``, in a new game if there is none or its process has died."""
        while True:
            if self._game is not None and not self._game.usable:
                self._game.close()
                self._game = None
            if self._game is None:
                self._game = HostedGame(self.child)
            try:
                return self._game.ask("begin", **arguments)
            except NotSentError:  # another game's call hung, and ended the process while this one waited
                continue

    def _ask_game(self, verb: str, **arguments: Any) -> Any:
        """Call a method of the game, after ``_begin_game``."""
        if self._game is None:
            raise UsageError("no episode has started; call reset() first")
        return self._game.ask(verb, **arguments)

    def _limit_turns(self, solution: float) -> None:
        """Set the limit of the episode, which a limit of the constructor replaces.

        Args:
            solution: turns that a solution may take.
        """
        self.max_turns = self._most_turns or max(USUAL_LIMIT, int(solution))

    def _gain(self, score: int, most: int) -> float:
        """Keep a game's score, and return its change as a share of the maximum ``most``."""
        gain, self._points = (score - self._points) / most, score
        return gain
