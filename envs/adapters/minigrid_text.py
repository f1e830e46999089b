"""Minigrid's grid worlds and BabyAI's levels as text: the mission, what the agent sees and carries, words for actions.

The words and the sentences about the view are those in which the field plays BabyAI with language models: "You see a
red ball 1 step left and 2 steps forward".
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gymnasium

from ...errors import UsageError
from ...tasks.rng import Rng
from ...tasks.spec import Split, TaskSpec
from ..contract import Contract
from ..fork import Forks
from ..messages import Action, ActionLike
from ..step import Step
from .gymnasium_text import GymnasiumText, _made
from .peers import unknown

WORDS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
"""Words for Minigrid's actions, in its order; some environments have only the first three."""
DONE = WORDS.index("done")
MOVES = 3
"""Number of the first actions, which only move."""
RULES = (
    "You are in a world of square cells. You see those before you, and some to either side. 'go forward' moves you one "
    "cell."
)
HANDS = (
    " 'pick up', 'drop' and 'toggle' act on the cell right before you; 'toggle' opens boxes, and opens and closes "
    "doors, a locked one only if you carry the key of its color."
)
"""Rules of the actions after the first three."""
FAMILIES = ("MiniGrid-", "BabyAI-")
GENERATED, GENERATOR = "MiniGrid-WFC-", ("imageio", "networkx")
"""Prefix of environments whose rooms are generated from an image, and the packages that this needs."""
UNSOLVED = (
    "PutNextS5N2Carrying",
    "PutNextS6N3Carrying",
    "PutNextS7N4Carrying",
    "KeyInBox",
    "OpenDoorsOrderN2Debug",
    "OpenDoorsOrderN4Debug",
)
"""BabyAI's levels that its bot does not solve: according to its documentation, and the last two by trial."""
NO_BOT = "only BabyAI's levels have a bot, and it does not solve all of them"
BY_CHANCE = "random play solves small rooms often, and Minigrid pays less for each action that it takes"
HIDDEN_GREETING = "PYGAME_HIDE_SUPPORT_PROMPT"
_loading = threading.Lock()
"""Held while Minigrid is imported: threads that import different modules of it at once wait for one another forever."""


class Minigrid(GymnasiumText):
    """An environment of Minigrid; ``turnwise.make("minigrid/BabyAI-GoToRedBall-v0")`` creates it.

    Rewards and ends are Minigrid's own: a solved task pays from 1 down to 0.1 the more actions it takes, as a share of
    Minigrid's ``max_steps``. So this limit is part of the task: the prompt states it, and it terminates the episode.

    Args:
        name: Minigrid's id, such as ``BabyAI-GoToRedBall-v0``.
        actions: words for its actions, of which most environments have seven.
        instructions: text before the mission (default: the rules, and the words for actions).
        max_turns: limit of turns, if it is to be lower than Minigrid's.
        arguments: ``success_at``, and arguments of ``gymnasium.make``, such as ``max_steps=20``.

    Raises:
        UnknownEnvironmentError: Minigrid has none of this name.
        UsageError: it refuses the arguments, or lacks a package.
    """

    forks = Forks.COPY
    max_turns_truncates = False

    def __init__(
        self,
        name: str,
        *,
        actions: Sequence[str] | None = None,
        instructions: str | None = None,
        max_turns: int | None = None,
        **arguments: Any,
    ) -> None:
        _load(name)
        _check_arguments(name, arguments)
        self._arguments = {key: value for key, value in arguments.items() if key not in ("render_mode", "success_at")}
        super().__init__(name, actions=actions, max_turns=max_turns, **arguments)
        self._most_turns = max_turns
        rules = RULES + (HANDS if self._game.action_space.n > MOVES else "")
        self._rules = f"{rules}\n{self._how()}" if instructions is None else instructions
        self._world: Any = self._game.unwrapped
        exempt = {"random_at_floor": BY_CHANCE}
        self.contract = Contract(exempt=exempt if self.has_oracle else {**exempt, "oracle_solves": NO_BOT})

    @property
    def has_oracle(self) -> bool:
        """Whether this is a level of BabyAI that its bot solves."""
        return self._kind.startswith("BabyAI-") and self._kind.removeprefix("BabyAI-") not in UNSOLVED

    def start(self, task: TaskSpec, rng: Rng) -> str:
        """Reset Minigrid's environment."""
        self._seed = task.seed if task.split is Split.TRAIN else rng.randrange(2**31)
        self._seen, _ = self._game.reset(seed=self._seed)
        self._return, self._taken, self._guide = 0.0, (), None
        steps = int(self._world.max_steps)
        self.max_turns = min(steps, self._most_turns or steps)
        limit = f"You have at most {self.max_turns} actions, and finishing with fewer pays more."
        return f"{self._rules}\nMission: {self._world.mission}.\n{limit}\n\n{self._shown()}"

    def act(self, action: Action) -> Step:
        """Take one action."""
        taken = self._read(action)
        step = super().act(action)
        self._taken = (*self._taken, taken)
        if step.truncated:  # Minigrid's own limit, at which this environment's ends the episode
            return replace(step, truncated=False, score=None)
        return step

    def oracle(self) -> ActionLike:
        """Return the next action of BabyAI's bot, which sees what the agent has seen."""
        if not self.has_oracle:
            return super().oracle()
        if self._guide is None:
            self._guide = _Guide(self._name, self._arguments, self._seed)
        return self._said(self._guide.advice(self._taken))

    # -- the inside -----------------------------------------------------------------------------------------------

    _seed: int = 0
    _taken: tuple[int, ...] = ()
    _guide: _Guide | None = None

    def _usual_words(self) -> Sequence[str]:
        return WORDS[: self._game.action_space.n]

    def _shown(self) -> str:
        return "\n".join(view(self._world))

    def _solved(self, last: float, terminated: bool) -> bool:
        return super()._solved(last, terminated) if self._success_at is not None else terminated and last > 0


class _Guide:
    """BabyAI's bot, in a game of its own that repeats the agent's actions: it keeps a plan and a map."""

    def __init__(self, name: str, arguments: Mapping[str, Any], seed: int) -> None:
        self._bot_kind: Any = importlib.import_module("minigrid.utils.baby_ai_bot").BabyAIBot
        self._game: Any = _made(name, arguments)
        self._game.reset(seed=seed)
        self._followed = 0
        self._next = self._begin()

    def advice(self, taken: Sequence[int]) -> int:
        """Return the bot's action after those that the agent has taken."""
        for action in taken[self._followed :]:
            self._game.step(action)
            self._followed += 1
            try:
                self._next = int(self._bot.replan(action))
            except Exception:  # it gives up where the agent has left its plan for good, such as by opening a box
                self._next = self._begin()
        return self._next

    def _begin(self) -> int:
        """Let a new bot plan from here on; return what it does first, or ``done`` if it gives up as well."""
        try:
            self._bot: Any = self._bot_kind(self._game.unwrapped)
            return int(self._bot.replan())
        except Exception:
            return DONE


def view(world: Any) -> list[str]:
    """Return what the agent sees and carries, in sentences: walls ahead and beside, then things by distance."""
    grid, visible = world.gen_obs_grid()
    middle, own = grid.width // 2, grid.height - 1
    sentences = list(_walls(grid, visible, middle, own))
    things = []
    for j in range(grid.height):
        for i in range(grid.width):
            cell, right, ahead = grid.get(i, j), i - middle, own - j
            if visible[i, j] and cell is not None and cell.type != "wall" and (right, ahead) != (0, 0):
                things.append((abs(right) + ahead, right, f"You see {_named(cell)} {_place(right, ahead)}."))
    sentences += [text for *_, text in sorted(things)]
    if world.carrying is not None:
        sentences.append(f"You carry {_named(world.carrying)}.")
    return sentences or ["You see nothing."]


def _walls(grid: Any, visible: Any, middle: int, own: int) -> Iterator[str]:
    for right, ahead in ((0, 1), (-1, 0), (1, 0)):
        i, j, steps = middle + right, own - ahead, 1
        while 0 <= i < grid.width and j >= 0 and visible[i, j]:
            if (cell := grid.get(i, j)) is not None and cell.type == "wall":
                yield f"You see a wall {_place(steps * right, steps * ahead)}."
                break
            i, j, steps = i + right, j - ahead, steps + 1


def _named(cell: Any) -> str:
    if cell.type == "lava":
        return "lava"
    state = ""
    if cell.type == "door":
        state = "open " if cell.is_open else "locked " if cell.is_locked else "closed "
    return f"{'an' if state == 'open ' else 'a'} {state}{cell.color} {cell.type}"


def _place(right: int, ahead: int) -> str:
    side = f"{_steps(abs(right))} {'right' if right > 0 else 'left'}" if right else ""
    return " and ".join(filter(None, (side, f"{_steps(ahead)} forward" if ahead else "")))


def _steps(n: int) -> str:
    return f"{n} step{'s'[: n - 1]}"


def _load(name: str) -> None:
    """Import Minigrid, which registers its environments, and look for one.

    Raises:
        UnknownEnvironmentError: there is none of this name.
        UsageError: it needs packages that are not installed.
    """
    with _loading:
        if sys.modules.get("minigrid") is None:
            with _silent():
                importlib.import_module("minigrid")
        # It prints each arrangement of rooms that it rejects, and standard output carries the results of commands.
        vars(importlib.import_module("minigrid.envs.babyai.core.roomgrid_level"))["print"] = lambda *_, **__: None
    known = [each for each in gymnasium.registry if each.startswith(FAMILIES)]
    if name not in known:
        raise unknown("minigrid", name, known)
    if name.startswith(GENERATED) and not all(map(importlib.util.find_spec, GENERATOR)):
        needs = " and ".join(GENERATOR)
        raise UsageError(f"minigrid/{name} needs {needs}: pip install 'minigrid[wfc]'")


def _check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """Reject values of ``max_steps`` and ``agent_view_size`` that Minigrid cannot honor, or rejects without a message.

    Raises:
        UsageError: ``max_steps`` is not a positive number, or ``agent_view_size`` is not odd or below 3.
    """
    steps, size = arguments.get("max_steps"), arguments.get("agent_view_size")
    if steps is not None and (type(steps) is not int or steps < 1):
        raise UsageError(f"minigrid/{name} needs max_steps of at least 1, as a whole number; got {steps!r}")
    if size is not None and (type(size) is not int or size < 3 or size % 2 == 0):
        raise UsageError(f"minigrid/{name} needs an odd agent_view_size of at least 3; got {size!r}")


@contextmanager
def _silent() -> Iterator[None]:
    """Ask pygame, which Minigrid imports, not to print its greeting.

    The variable is there for all threads meanwhile. Nothing but pygame reads it.
    """
    kept = os.environ.get(HIDDEN_GREETING)
    os.environ[HIDDEN_GREETING] = "1"
    try:
        yield
    finally:
        if kept is None:
            os.environ.pop(HIDDEN_GREETING, None)
        else:
            os.environ[HIDDEN_GREETING] = kept
