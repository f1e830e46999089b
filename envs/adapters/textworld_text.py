"""TextWorld's generated games, played in a process of their own."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import UnparseableError, UsageError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import Split, TaskSpec
from ..contract import Contract
from ..messages import Action, ActionLike, clip
from ..step import Step, running
from .hosted_env import START_SECONDS, HostedEnv
from .peers import unknown

GAMES: Mapping[str, Mapping[str, Any]] = {
    "coin_collector": {"level": 5},
    "cooking": {
        "recipe": 1, "take": 1, "go": 6, "open": True, "cook": True, "cut": False, "drop": False, "recipe_seed": 0,
    },
    "custom": {"nb_rooms": 3, "nb_objects": 6, "nb_parallel_quests": 1, "quest_length": 4, "quest_breadth": 1},
    "simple": {"rewards": "dense", "goal": "detailed"},
    "treasure_hunter": {"level": 5},
}  # fmt: skip
"""TextWorld's games and their settings, with the values of this adapter; those of TextWorld's ``tw-make``."""
COOKING_SPLITS = {Split.TRAIN: "train", Split.DEV: "valid"}
"""TextWorld's names of splits, whose foods differ; all others are its ``test``."""
TURN_FACTOR = 2
"""Turns of an episode per command of its walkthrough."""
COMMAND = re.compile(r"[a-z0-9][a-z0-9 '&-]*")
"""Pattern of one command. Full stops and commas would join several, or address a character of the game."""
LONGEST_COMMAND = 100
ALWAYS = ("examine", "inventory", "look")
RULES = "You play a text adventure. Answer with one command, which begins with one of: {verbs}."
BY_CHANCE = "random play picks among the commands that do something, and wins small games"


class TextWorld(HostedEnv):
    """A game of TextWorld; ``turnwise.make("textworld/simple-v0")`` creates it.

    The seed generates the game. The reward is the change of TextWorld's score as a share of its maximum, so winning
    pays 1 in all. Winning or losing terminates. The oracle follows TextWorld's walkthrough.

    Args:
        name: ``simple``, ``cooking``, ``coin_collector``, ``treasure_hunter``, or ``custom``.
        admissible: whether observations list the commands that do something.
        max_turns: limit of turns, which truncates (default: 100, or twice the length of the walkthrough).
        settings: TextWorld's settings of the game, such as ``level=7``; see ``GAMES``.
    """

    child = "envs.adapters.textworld_child"
    contract = Contract(max_seconds=START_SECONDS, exempt={"random_at_floor": BY_CHANCE})

    def __init__(
        self,
        name: str,
        *,
        admissible: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        if importlib.util.find_spec("textworld") is None:
            raise ModuleNotFoundError("No module named 'textworld'", name="textworld")
        if name not in GAMES:
            raise unknown("textworld", name, GAMES)
        if others := sorted(set(settings) - set(GAMES[name])):
            known = ", ".join(GAMES[name])
            raise UsageError(f"textworld/{name} has no setting {others[0]!r}; it has {known}")
        self._name, self._settings = name, {**GAMES[name], **settings}
        self._admissible = admissible
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def tasks(self) -> TaskFamily[Any]:  # type: ignore[override]
        """Return the family of its tasks, which differ by their seeds, and in cooking by the foods of their split."""
        return SeededFamily(self._name)

    def start(self, task: TaskSpec, rng: Rng) -> str:
        """Generate the game, unless it was played before, and begin it."""
        seed = task.seed if task.split is Split.TRAIN else rng.randrange(2**31)
        begun = self._begin_game(kind=self._name, seed=seed % 2**32, settings=self._made_for(task.split))
        self._state, self._points, self._most = begun, int(begun["score"]), max(1, int(begun["max_score"] or 1))
        self._done: tuple[str, ...] = ()
        self._verbs = tuple(sorted({*begun["verbs"], *ALWAYS}))
        self._walkthrough = tuple(begun["walkthrough"])
        self._limit_turns(TURN_FACTOR * len(self._walkthrough))
        parts = (RULES.format(verbs=", ".join(self._verbs)), begun["objective"], self._shown())
        return "\n\n".join(filter(None, parts))

    def act(self, action: Action) -> Step:
        """Enter a command."""
        command = self._read(action)
        self._state, self._done = self._ask_game("step", command=command), (*self._done, command)
        step = running(self._shown(), self._gain(int(self._state["score"]), self._most))
        if not (self._state["won"] or self._state["lost"]):
            return step
        return replace(step, terminated=True, score=Score(success=self._state["won"]))

    def oracle(self) -> ActionLike:
        """Return the next command of the walkthrough, or of a policy that TextWorld plans from the present state."""
        n = len(self._done)
        if self._done == self._walkthrough[:n] and n < len(self._walkthrough):
            return self._walkthrough[n]
        plan: Sequence[str] = self._ask_game("plan", commands=list(self._done))
        return plan[0] if plan else "look"

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a random command among those that do something."""
        commands: Sequence[str] = self._state["commands"] or ALWAYS
        return commands[rng.randrange(len(commands))]

    def best_return(self) -> float | None:
        """Return 1, the whole score."""
        return 1.0

    # -- the inside -----------------------------------------------------------------------------------------------

    _state: Mapping[str, Any] = {}
    _most: int = 1
    _verbs: tuple[str, ...] = ()
    _walkthrough: tuple[str, ...] = ()

    def _made_for(self, split: Split) -> dict[str, Any]:
        if self._name == "simple":
            return {**self._settings, "test": split not in COOKING_SPLITS}
        if self._name == "cooking":
            return {**self._settings, "split": COOKING_SPLITS.get(split, "test")}
        return dict(self._settings)

    def _read(self, action: Action) -> str:
        """Return the command, if it is one of the game and not of its interpreter, such as ``save`` or ``tw-print``."""
        command = " ".join(action.text.split()).lower()
        words = command.split()
        if not words or words[0] not in self._verbs or "then" in words:
            raise UnparseableError(f"Begin a command with one of: {', '.join(self._verbs)}. Got {clip(action.text)!r}.")
        if len(command) > LONGEST_COMMAND or not COMMAND.fullmatch(command):
            raise UnparseableError(f"Answer with one short command in plain words. Got {clip(action.text)!r}.")
        return command

    def _shown(self) -> str:
        text = str(self._state["text"])
        if not self._admissible or self._state["won"] or self._state["lost"]:
            return text
        return f"{text}\n\nCommands: {', '.join(self._state['commands'])}."
