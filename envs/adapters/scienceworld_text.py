"""ScienceWorld's tasks of elementary science, played in a process of their own."""

from __future__ import annotations

import difflib
import importlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...errors import UnknownEnvironmentError, UnparseableError, UsageError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import TaskSpec
from ..base import TurnEnv
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike, clip
from ..step import Step, running
from .peer_process import HostedGame, hosted

CHILD = "envs.adapters.scienceworld_child"
USUAL_LIMIT, MORE_TURNS = 100, 1.5
"""Turns of a game, and turns per command of the gold path where that is more."""
FULL, LONGEST_COMMAND = 100, 200
RULES = (
    "You do an experiment in a text world. Answer with one command, such as: look around, look at OBJ, look in OBJ, "
    "go to LOC, open OBJ, close OBJ, pick up OBJ, put down OBJ, move OBJ to OBJ, pour OBJ into OBJ, mix OBJ, use OBJ "
    "on OBJ, activate OBJ, deactivate OBJ, connect OBJ to OBJ, disconnect OBJ, read OBJ, eat OBJ, focus on OBJ, wait, "
    "inventory. If a command is ambiguous, you are asked for a number."
)
START_SECONDS = 60.0
"""Most seconds of a reset: the first one starts Java."""


class ScienceWorld(TurnEnv):
    """A task of ScienceWorld; ``turnwise.make("scienceworld/find-plant-v0")`` creates it.

    The seed chooses one of the task's variations, those of ScienceWorld's train, dev and test set in the splits
    ``train``, ``dev`` and ``test_iid``. The reward is the change of ScienceWorld's score as a share of 100. A full
    score is a success; a mistake that cannot be undone makes the score negative, and ends the episode with what it
    had paid taken back. The oracle follows ScienceWorld's gold path.

    Args:
        name: name of the task, such as ``boil``.
        simplifications: ScienceWorld's simplifications, separated by commas, such as ``easy``.
        max_turns: limit of turns, which truncates (default: 100, or half as many again as the gold path has).
    """

    forks = Forks.REPLAY
    max_turns_truncates = True
    contract = Contract(max_seconds=START_SECONDS)

    def __init__(
        self, name: str, *, simplifications: str = "", max_turns: int | None = None, render_mode: str | None = None
    ) -> None:
        known = list(importlib.import_module("scienceworld.constants").ID2TASK.values())
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
            hint = f" Did you mean {', '.join(f'scienceworld/{each}-v0' for each in near)}?" if near else ""
            raise UnknownEnvironmentError(f"ScienceWorld has no task {name!r}.{hint}")
        if shutil.which("java") is None:
            raise UsageError(f"scienceworld/{name} needs Java, and there is no `java` on the path")
        self._name, self._simplifications, self._most_turns = name, simplifications, max_turns
        super().__init__(max_turns=max_turns or USUAL_LIMIT, render_mode=render_mode)

    def tasks(self) -> TaskFamily[Any]:  # type: ignore[override]
        """Return the family of its tasks, which differ by the variation that their seed chooses."""
        return SeededFamily(self._name)

    def start(self, task: TaskSpec, rng: Rng) -> str:
        """Load the variation."""
        self._game = hosted(self._game, CHILD)
        begun = self._game.ask(
            "begin", task=self._name, split=str(task.split), index=task.seed, simplifications=self._simplifications
        )
        self._variation, self._gold = int(begun["variation"]), tuple(self._game.ask("gold"))
        self._points, self._done = 0, 0
        self.max_turns = self._most_turns or max(USUAL_LIMIT, int(MORE_TURNS * len(self._gold)))
        return f"{RULES}\n\n{begun['task']}\n\n{begun['text'].strip()}"

    def act(self, action: Action) -> Step:
        """Enter a command."""
        command = " ".join(action.text.split())
        if not command or len(command) > LONGEST_COMMAND or not command.isprintable():
            raise UnparseableError(f"Answer with one short command, such as 'look around'. Got {clip(action.text)!r}.")
        assert self._game is not None, "an episode has begun"
        seen = self._game.ask("step", command=command)
        if self._done < len(self._gold) and command == self._gold[self._done]:
            self._done += 1
        score = max(0, int(seen["score"]))
        reward, self._points = (score - self._points) / FULL, score
        step = running(str(seen["text"]).strip(), reward)
        return replace(step, terminated=True, score=Score(success=score >= FULL)) if seen["over"] else step

    def oracle(self) -> ActionLike:
        """Return the next command of the gold path that was not entered yet."""
        return self._gold[self._done] if self._done < len(self._gold) else "look around"

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random command among those that do something."""
        assert self._game is not None, "an episode has begun"
        commands: Sequence[str] = self._game.ask("commands") or ["look around"]
        return commands[rng.randrange(len(commands))]

    def best_return(self) -> float | None:
        """Return 1, the full score."""
        return 1.0

    def close(self) -> None:
        """End the game, and its process with Java if it was the last one there."""
        self._release()
        super().close()

    # -- the inside -----------------------------------------------------------------------------------------------

    _game: HostedGame | None = None
    _gold: tuple[str, ...] = ()
    _variation: int = 0
    _points: int = 0
    _done: int = 0

    def _release(self) -> None:
        if self._game is not None:
            self._game.close()
            self._game = None
