"""``HostedEnv``: an environment whose game runs in the child process of its package."""

from __future__ import annotations

from typing import Any, ClassVar

from ..base import TurnEnv
from .peer_process import HostedGame


class HostedEnv(TurnEnv):
    """An environment that plays a game of another package, which stays in a process of its own."""

    child: ClassVar[str]
    """Module below ``turnwise`` that serves the games, as ``peer_child.serve`` does."""

    def close(self) -> None:
        """End the game, and its process if it was the last one there."""
        if self._game is not None:
            self._game.close()
            self._game = None
        super().close()

    # -- for adapters ---------------------------------------------------------------------------------------------

    _game: HostedGame | None = None

    def _begin_game(self, **arguments: Any) -> Any:
        """Call the game's ``begin``, in a new game if there is none or its process has died."""
        if self._game is not None and not self._game.usable:
            self._game.close()
            self._game = None
        if self._game is None:
            self._game = HostedGame(self.child)
        return self._game.ask("begin", **arguments)

    def _ask_game(self, verb: str, **arguments: Any) -> Any:
        """Call a method of the game, after ``_begin_game``."""
        assert self._game is not None, "an episode has begun"
        return self._game.ask(verb, **arguments)
