"""ScienceWorld's tasks of elementary science, played in a process of their own."""

from __future__ import annotations

import importlib
import re
import shutil
from dataclasses import replace
from typing import Any

from ...errors import UnparseableError, UsageError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import TaskSpec
from ..messages import Action, ActionLike, clip
from ..step import Step, running
from .hosted_env import HostedEnv
from .peers import unknown

TURN_FACTOR = 1.5
"""Turns of an episode per command of its gold path."""
FULL, LONGEST_COMMAND = 100, 200
RULES = (
    "You do an experiment in a text world. Answer with one command, such as: look around, look at OBJ, look in OBJ, "
    "go to LOC, open OBJ, close OBJ, pick up OBJ, put down OBJ, move OBJ to OBJ, pour OBJ into OBJ, mix OBJ, use OBJ "
    "on OBJ, activate OBJ, deactivate OBJ, connect OBJ to OBJ, disconnect OBJ, read OBJ, eat OBJ, focus on OBJ, wait, "
    "inventory. If a command is ambiguous, you are asked for a number."
)
VERBS = (
    "look around", "inventory", "wait", "look at {}", "look in {}", "open {}", "close {}", "go to {}", "pick up {}",
    "put down {}", "read {}", "eat {}", "mix {}", "activate {}", "deactivate {}", "disconnect {}", "focus on {}",
    "move {} to {}", "pour {} into {}", "use {} on {}", "connect {} to {}",
)  # fmt: skip
"""Commands of a random player."""
NAME = re.compile(
    r"\b(?:an?|the) (?:substance called |door to the )?([a-z][a-z -]*?)(?= \(| is\b| are\b|[.,:;)\n]|$)", re.I
)
"""A thing or place in a description, such as "wood cup" in "a wood cup (containing red paint)"."""
CHOICE = re.compile(r"^(\d+):", re.M)
"""A number that answers an ambiguous command."""


class ScienceWorld(HostedEnv):
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

    child = "envs.adapters.scienceworld_child"

    def __init__(
        self, name: str, *, simplifications: str = "", max_turns: int | None = None, render_mode: str | None = None
    ) -> None:
        known = list(importlib.import_module("scienceworld.constants").ID2TASK.values())
        if name not in known:
            raise unknown("scienceworld", name, known)
        if shutil.which("java") is None:
            raise UsageError(f"scienceworld/{name} needs Java, and there is no `java` on the path")
        self._name, self._simplifications = name, simplifications
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def tasks(self) -> TaskFamily[Any]:  # type: ignore[override]
        """Return the family of its tasks, which differ by the variation that their seed chooses."""
        return SeededFamily(self._name)

    def start(self, task: TaskSpec, rng: Rng) -> str:
        """Load the variation."""
        begun = self._begin_game(
            task=self._name, split=str(task.split), index=task.seed, simplifications=self._simplifications
        )
        self._variation, self._gold = int(begun["variation"]), tuple(self._ask_game("gold"))
        self._points, self._done, self._seen = 0, 0, ""
        self._limit_turns(TURN_FACTOR * len(self._gold))
        return f"{RULES}\n\n{begun['task']}\n\n{begun['text'].strip()}"

    def act(self, action: Action) -> Step:
        """Enter a command."""
        command = " ".join(action.text.split())
        if not command or len(command) > LONGEST_COMMAND or not command.isprintable():
            raise UnparseableError(f"Answer with one short command, such as 'look around'. Got {clip(action.text)!r}.")
        seen = self._ask_game("step", command=command)
        if self._done < len(self._gold) and command == self._gold[self._done]:
            self._done += 1
        score = max(0, int(seen["score"]))
        self._seen = str(seen["text"]).strip()
        step = running(self._seen, self._gain(score, FULL))
        return replace(step, terminated=True, score=Score(success=score >= FULL)) if seen["over"] else step

    def oracle(self) -> ActionLike:
        """Return the next command of the gold path that was not entered yet."""
        return self._gold[self._done] if self._done < len(self._gold) else "look around"

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random command about the things that are in view, or a number where the game asks for one."""
        if numbers := CHOICE.findall(self._seen):
            return str(numbers[rng.randrange(len(numbers))])
        # The simulator's own list of commands calls things by names that each call draws at random.
        names = sorted({name.lower() for name in NAME.findall(self._ask_game("view"))}) or ["room"]
        verb = VERBS[rng.randrange(len(VERBS))]
        return verb.format(*(names[rng.randrange(len(names))] for _ in range(verb.count("{}"))))

    def best_return(self) -> float | None:
        """Return 1, the full score."""
        return 1.0

    # -- the inside -----------------------------------------------------------------------------------------------

    _gold: tuple[str, ...] = ()
    _variation: int = 0
    _done: int = 0
    _seen: str = ""
