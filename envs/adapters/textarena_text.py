"""TextArena's games for one player, whose random numbers come from the process's global generator."""

from __future__ import annotations

import importlib
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ...errors import UsageError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import Split, TaskSpec
from ..base import TurnEnv
from ..contract import Contract
from ..messages import Action
from ..step import Step, running
from .peers import unknown

WINS = 1.0
"""Reward from which a game counts as won."""
GENERATOR = "TextArena draws from the global generator, which the adapter exchanges around each call"
NO_ORACLE = "TextArena has no oracle"
USUAL_LIMIT, TURN_FACTOR = 100, 2
"""Turns of a game that states no limit; and turns allowed per turn of a game, which does not count invalid moves."""
_lock = threading.RLock()
"""Lets one game at a time have the global generator."""


class TextArena(TurnEnv):
    """A game of TextArena for one player; ``turnwise.make("textarena/Mastermind-v0")`` creates it.

    The reward is TextArena's, at the end of the game. An episode succeeds with a reward of 1. TextArena ends a game
    after several invalid moves. A task of the split ``train`` resets with the task's seed.

    Args:
        name: TextArena's id, such as ``Mastermind-v0``.
        variant: a variant of the game, such as ``hard``.
        arguments: arguments of ``textarena.make``.
    """

    max_turns_truncates = True
    contract = Contract(exempt={"no_global_rng": GENERATOR, "oracle_solves": NO_ORACLE})

    def __init__(
        self,
        name: str,
        *,
        variant: str = "",
        max_turns: int | None = None,
        render_mode: str | None = None,
        **arguments: Any,
    ) -> None:
        self._name = f"{name}-{variant}" if variant else name
        self._generator = random.Random(0).getstate()
        self._arguments = arguments
        with self._generating():
            self._game: Any = _made(self._name, arguments)
            self._reset(0)
        limit = TURN_FACTOR * (getattr(self._game.state, "max_turns", None) or USUAL_LIMIT)
        super().__init__(max_turns=limit if max_turns is None else max_turns, render_mode=render_mode)

    def tasks(self) -> TaskFamily[Any]:  # type: ignore[override]
        """Return the family of its tasks, which differ only by their seeds."""
        return SeededFamily(self._name)

    def start(self, task: TaskSpec, rng: Rng) -> str:
        """Start a game."""
        seed = task.seed if task.split is Split.TRAIN else rng.randrange(2**31)
        self._generator = random.Random(seed).getstate()
        with self._generating():
            self._game = _made(self._name, self._arguments)  # a game keeps state beyond its reset
            self._reset(seed)
            return self._shown()

    def act(self, action: Action) -> Step:
        """Make a move."""
        with self._generating():
            over, _ = self._game.step(action.text)
            text = self._shown()
            if not over:
                return running(text)
            rewards, results = self._game.close()
        reward = float((rewards or {}).get(0) or 0.0)
        reason = (results or {}).get(0, {}).get("reason") or "The game is over."
        ended = running("\n".join(filter(None, (text, str(reason)))), reward)
        return replace(ended, terminated=True, score=Score(success=reward >= WINS))

    @contextmanager
    def _generating(self) -> Iterator[None]:
        """Give the game the global generator, as this environment left it, and then restore the process's own."""
        with _lock:
            kept = random.getstate()
            random.setstate(self._generator)
            try:
                yield
            finally:
                vars(self)["_generator"] = random.getstate()
                random.setstate(kept)

    def _reset(self, seed: int) -> None:
        try:
            self._game.reset(num_players=1, seed=seed)
        except AssertionError as error:
            raise UsageError(f"textarena/{self._name} is not a game for one player: {error}") from None
        except LookupError as error:
            missing = next((line for line in str(error).splitlines() if "nltk.download" in line), "nltk.download(…)")
            raise UsageError(f"textarena/{self._name} needs data that it did not find: {missing.strip()}") from None

    def _shown(self) -> str:
        """Return the messages since the last move, without the move itself."""
        _, messages = self._game.get_observation()
        return "\n".join(text for _, text, kind in messages if kind.name != "PLAYER_ACTION").strip()


def _made(name: str, arguments: Mapping[str, Any]) -> Any:
    """Create a game without TextArena's wrappers, which repeat the history.

    Raises:
        UnknownEnvironmentError: there is no game of this name.
        UsageError: it refuses the arguments, or lacks data.
    """
    arena: Any = importlib.import_module("textarena")
    known = importlib.import_module("textarena.envs.registration").ENV_REGISTRY
    if f"{name}-raw" not in known:
        raise unknown("textarena", name, (each for each in known if not each.endswith(("-raw", "-train"))))
    try:
        return arena.make(f"{name}-raw", **arguments)
    except (SyntaxError, ImportError) as error:  # written for a newer Python, or lacks a package
        raise UsageError(f"textarena/{name} cannot be loaded here: {type(error).__name__}: {error}") from None
    except (TypeError, LookupError, AssertionError) as error:
        raise UsageError(f"textarena/{name} cannot be created: {' '.join(str(error).split())[:300]}") from None
