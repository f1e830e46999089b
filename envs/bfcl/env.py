"""BFCL's multi-turn tasks as environments: a user with several requests, tools with a state, the suite's own verdict.

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
"""How many messages with calls one turn of the user may take; with one more the suite gives up on the task."""
LONGEST = 60_000
"""Characters of one answer that an agent is shown; the verdict knows all of it."""
TURNS = 8
"""No task has more turns of the user."""


class BfclEnv(ToolEnv[BfclTask]):
    """Do what a user asks for in several turns. A message without a call ends the turn: the user goes on, or is done.

    The task is solved when after every turn of the user the state is that of the suite's possible answer, and its
    answers are among those that the agent has got so far. Nothing is said about it before the end.
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
        installed()  # whoever lacks the package hears of it here, and not in the first episode
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def start(self, task: BfclTask, rng: Rng) -> str:
        """Build the world of the agent, and another in which the possible answer will be played."""
        self.played, self.world, self.gold = task, World(task), World(task)
        self.at, self.held_back = 0, frozenset(name for turn in task.turns for name in turn.added)
        self.problems: tuple[str, ...] = ()
        self.heard: tuple[str, ...] = ()
        return self._begin_turn()

    # -- what an agent does --------------------------------------------------------------------------------------

    def offered(self) -> Sequence[Tool]:
        """The functions that the suite has handed over so far; before the first episode, all that it knows."""
        played: BfclTask | None = getattr(self, "played", None)
        return functions_of(played.classes, without=self.held_back) if played else functions_of(CLASSES)

    def act(self, action: Action) -> Step:
        """Run calls; a message without one ends the user's turn."""
        if not action.tool_calls:
            return self._end_turn()
        self.called_at_all, before = True, len(self.heard)
        step = cast(Step, super().act(action))
        self.steps += len(self.heard) > before
        if self.steps > STEPS:
            return replace(step, terminated=True, score=self.judge(), reward=0.0, info={**step.info, "gave_up": True})
        return step

    def called(self, function: str, arguments: dict[str, Any]) -> str:
        """Run one call whose arguments fit its description, and remember what was answered."""
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
        """What the user says, and new functions in words: an agent's prompt names those that it began with."""
        self.steps, self.done, self.called_at_all = 0, 0, False
        added = self._turn_now.added
        self.held_back -= set(added)
        if self._turn_now.said:
            return self._turn_now.said
        told = importlib.import_module("bfcl_eval.constants.default_prompts")
        tools = [tool.to_json()["function"] for tool in self.offered() if tool.name in added]
        return str(told.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING).format(functions=json.dumps(tools))

    def _end_turn(self) -> Step:
        self.problems = (*self.problems, self._problem())
        self.at += 1
        if self.at < len(self.played.turns):
            return running(self._begin_turn())
        score = self.judge()
        wrong = {f"turn {i + 1}": problem for i, problem in enumerate(self.problems) if problem}
        return termination("The conversation is over.", self.reward(score), score, problems=wrong)

    def _problem(self) -> str:
        """What the suite finds wrong with the turn that ends here; nothing where its possible answer has no call."""
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
        """The next call of the possible answer; several at once where there are more than the suite allows messages."""
        return next_action(self._turn_now, self.done, STEPS - self.steps)

    def near_misses(self) -> Mapping[str, NearMiss]:
        """What the suite fails: saying what was to be done, and doing it at another time than it was asked for."""
        return near_misses(self.played.turns)

    def state_key(self) -> str:
        """Where the conversation is, what was answered so far, and the state of the world."""
        heard = sorted(Counter(self.heard).items())
        parts = stable_hash(self.at, self.problems, sorted(self.held_back), [list(pair) for pair in heard])
        return f"{parts.hex()[:16]}:{self.world.key()}"


class BfclMultiTurnBase(BfclEnv):
    """The user says all that is needed, and every function is there."""

    family = BfclFamily("base")


class BfclMultiTurnMissFunc(BfclEnv):
    """A function that is needed is handed over only after the user has asked for what it does."""

    family = BfclFamily("miss_func")


class BfclMultiTurnMissParam(BfclEnv):
    """The user leaves out something that is needed, and says it in the turn after."""

    family = BfclFamily("miss_param")


class BfclMultiTurnLongContext(BfclEnv):
    """The answers are full of what nobody asked for."""

    family = BfclFamily("long_context")
