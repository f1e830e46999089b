"""BFCL's multi-turn tasks as environments: a user with several requests, stateful tools, and the suite's own verdict.

Ids: ``turnwise/BFCLMultiTurnBase-v0``, ``…MissFunc-v0``, ``…MissParam-v0`` and ``…LongContext-v0``.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ...tasks.bfcl.suite import CLASSES, BfclFamily, BfclTask, Call, UserTurn, installed
from ...tasks.rng import Rng, stable_hash
from ...tasks.score import Score
from ..base import NearMiss
from ..contract import Contract
from ..messages import Action, ActionLike
from ..step import Step, running, termination
from ..toolenv import ToolEnv
from ..tools import Tool
from .functions import functions_of
from .near_misses import near_misses
from .oracle import next_action
from .world import World

STEPS = 20
"""Messages with calls that one turn of the user allows. With one more, the suite gives up on the task."""
LONGEST = 60_000
"""Characters of one answer shown to the agent. The verdict uses the full answer."""
TURNS = 8
"""The most user turns that any task has."""


class BfclEnv(ToolEnv[BfclTask]):
    """Do what a user asks for in several turns. A message without a call ends the turn: the user continues or is done.

    The task is solved if two conditions hold after every turn of the user: the state equals that of the suite's
    possible answer, and the agent has received all of its answers so far. The agent gets no feedback before the end.
    """

    max_turns = TURNS * (STEPS + 1)
    blocking = False
    contract = Contract(
        max_observation_chars=ToolEnv.max_calls * (LONGEST + 100),
        exempt={
            "no_clock": "the suite's files contain a time that no tool shows, and it computes ages from today's date"
        },
    )

    def __init__(self, *, max_turns: int | None = None, render_mode: str | None = None) -> None:
        installed()  # fails here if the package is missing, and not in the first episode
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def start(self, task: BfclTask, rng: Rng) -> str:
        """Build the agent's world, and a second one in which the possible answer will be played."""
        self.played, self.world, self.gold = task, World(task), World(task)
        self.at, self.held_back = 0, frozenset(name for turn in task.turns for name in turn.added)
        self.problems: tuple[str, ...] = ()
        self.heard: tuple[str, ...] = ()
        return self._begin_turn()

    # -- actions of the agent -------------------------------------------------------------------------------------

    def offered(self) -> Sequence[Tool]:
        """Return the functions that the suite has handed over so far; before the first episode, all of them."""
        played: BfclTask | None = getattr(self, "played", None)
        return functions_of(played.classes, without=self.held_back) if played else functions_of(CLASSES)

    def act(self, action: Action) -> Step:
        """Run the calls of a message; a message without calls ends the user's turn."""
        if not action.tool_calls:
            return self._end_turn()
        self.called_at_all, before = True, len(self.heard)
        step = cast(Step, super().act(action))
        self.steps += len(self.heard) > before
        if self.steps > STEPS:
            return replace(step, terminated=True, score=self.judge(), reward=0.0, info={**step.info, "gave_up": True})
        return step

    def called(self, function: str, arguments: dict[str, Any]) -> str:
        """Run one call with valid arguments, and remember its answer."""
        text = self.world.call(function, arguments)
        self.heard = (*self.heard, text)
        wanted = self._turn_now.answer[self.done : self.done + 1]
        self.done += wanted == (Call(function, arguments),)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[… {len(text) - LONGEST:,} characters cut …]"

    # -- the conversation ----------------------------------------------------------------------------------------

    @property
    def _turn_now(self) -> UserTurn:
        return self.played.turns[self.at]

    def _begin_turn(self) -> str:
        """Return the user's next message, or a description of the functions that the suite adds in this turn.

        The suite's own words describe them, since the agent's prompt lists only the functions that it started with.
        """
        self.steps, self.done, self.called_at_all = 0, 0, False
        added = self._turn_now.added
        self.held_back -= set(added)
        if self._turn_now.said:
            return self._turn_now.said
        prompts = importlib.import_module("bfcl_eval.constants.default_prompts")
        tools = [tool.to_json()["function"] for tool in self.offered() if tool.name in added]
        return str(prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING).format(functions=json.dumps(tools))

    def _end_turn(self) -> Step:
        self.problems = (*self.problems, self._problem())
        self.at += 1
        if self.at < len(self.played.turns):
            return running(self._begin_turn())
        score = self.judge()
        wrong = {f"turn {i + 1}": problem for i, problem in enumerate(self.problems) if problem}
        return termination("The conversation is over.", self.reward(score), score, problems=wrong)

    def _problem(self) -> str:
        """Describe what the suite finds wrong with the turn that ends here; empty if nothing is wrong.

        A turn whose possible answer has no calls is not checked.
        """
        answer = self._turn_now.answer
        expected = [self.gold.call(call.function, call.arguments) for call in answer]
        if not answer:
            return ""
        if not self.called_at_all:
            return "no call was made"
        if differences := self.world.differences(self.gold):
            return f"the state differs: {', '.join(differences)}"
        missing = Counter(expected) - Counter(self.heard)
        return f"{missing.total()} answers were not got" if missing else ""

    # -- judging and certification -------------------------------------------------------------------------------

    def judge(self) -> Score:
        """The suite's verdict: every turn of the user was played, and none went wrong."""
        turns = self.played.turns
        verdicts = [*(not problem for problem in self.problems), *[False] * (len(turns) - len(self.problems))]
        return Score(all(verdicts), {f"turn {i + 1}": verdict for i, verdict in enumerate(verdicts) if turns[i].answer})

    def oracle(self) -> ActionLike:
        """Return the next call of the possible answer, or several if too few messages are left for single calls."""
        return next_action(self._turn_now, self.done, STEPS - self.steps)

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: announcing the calls instead of making them, and making them in another turn."""
        return near_misses(self.played.turns)

    def state_key(self) -> str:
        """Return a key for the position in the conversation, the answers so far, and the state of the world."""
        heard = sorted(Counter(self.heard).items())
        parts = stable_hash(self.at, self.problems, sorted(self.held_back), [list(pair) for pair in heard])
        return f"{parts.hex()[:16]}:{self.world.key()}"


class BfclMultiTurnBase(BfclEnv):
    """The user gives all the information, and every function is available from the start."""

    family = BfclFamily("base")


class BfclMultiTurnMissFunc(BfclEnv):
    """The suite hands over a required function only after the user has asked for what it does."""

    family = BfclFamily("miss_func")


class BfclMultiTurnMissParam(BfclEnv):
    """The user leaves out required information, and gives it in the next turn."""

    family = BfclFamily("miss_param")


class BfclMultiTurnLongContext(BfclEnv):
    """Like the base tasks, but answers contain much irrelevant data."""

    family = BfclFamily("long_context")
