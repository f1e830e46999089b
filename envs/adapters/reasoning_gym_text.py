"""Reasoning Gym's procedural tasks: one question, one answer, and its own scorer."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import warnings
from typing import Any

from ...errors import ContractError, UsageError
from ...tasks.family import SeededFamily, TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.spec import Split, TaskSpec
from ..base import TurnEnv
from ..messages import Action, ActionLike
from ..step import Step, termination
from .peers import unknown

FULL = 1.0 - 1e-9
"""Score from which an answer counts as right; below, it pays its score, and the episode fails."""
OPEN, CLOSE = "<answer>", "</answer>"
HOW = f"Write your final answer as {OPEN}…{CLOSE}."
ANSWERS = ("answer", "possible_answer", "example_correct_answer")
"""Fields with the answer of a dataset, or an example of several right ones."""
LONGEST_ANSWER = 10_000
"""Characters beyond which an answer is wrong: some of the scorers parse formulas, which takes longer than linearly."""
EVALUATES = re.compile(r"\b(?<!literal_)(?:eval|exec|parse_expr|sympify)\s*\(")
"""Calls that run a text as Python; SymPy's parsers do, too."""


class ReasoningGym(TurnEnv):
    """A dataset of Reasoning Gym; ``turnwise.make("reasoning_gym/leg_counting-v0")`` creates it.

    The reward is Reasoning Gym's score, from 0 to 1, and an episode succeeds with the full score. A task of the split
    ``train`` has the dataset's seed. The answer stands between the last ``<answer>`` tags, or is the whole message.

    Args:
        name: name of the dataset, such as ``leg_counting``.
        arguments: arguments of ``reasoning_gym.create_dataset``, such as ``max_animals=5``.
    """

    max_turns = 1

    def __init__(
        self, name: str, *, max_turns: int | None = None, render_mode: str | None = None, **arguments: Any
    ) -> None:
        with warnings.catch_warnings():  # what Python says of a dependency's source when it compiles it
            warnings.simplefilter("ignore", SyntaxWarning)
            factory: Any = importlib.import_module("reasoning_gym.factory")
        if name not in factory.DATASETS:
            raise unknown("reasoning_gym", name, factory.DATASETS)
        if evaluates(factory.DATASETS[name][0]):
            raise UsageError(
                f"reasoning_gym/{name} is not supported: its module evaluates texts as Python, so an answer could run "
                "code in this process"
            )
        self._name, self._arguments, self._create = name, arguments, factory.create_dataset
        try:
            self._create(name, size=1, seed=0, **arguments)
        except (TypeError, AssertionError, ValueError) as error:
            raise UsageError(f"reasoning_gym/{name} cannot be created with {arguments}: {error}") from None
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def tasks(self) -> TaskFamily[Any]:  # type: ignore[override]
        """Return the family of its tasks, which differ only by their seeds."""
        return SeededFamily(self._name)

    def start(self, task: TaskSpec, rng: Rng) -> str:
        """Generate the question."""
        seed = task.seed if task.split is Split.TRAIN else rng.randrange(2**31)
        self._dataset = self._create(self._name, size=1, seed=seed, **self._arguments)
        self._entry = self._dataset[0]
        return f"{self._entry['question'].strip()}\n\n{HOW}"

    def act(self, action: Action) -> Step:
        """Score the answer, which ends the episode."""
        answer = answer_of(action.text)
        try:
            score = float(self._dataset.score_answer(answer, self._entry)) if answer else 0.0
        except (Exception, SystemExit):  # a scorer that fails at an odd answer: the agent wrote it, so it is wrong
            score = 0.0
        solved = score >= FULL
        verdict = "That is right." if solved else "That is not right."
        return termination(verdict, score if answer else 0.0, Score(success=solved))

    def oracle(self) -> ActionLike:
        """Return the dataset's own answer, or its example where many answers are right.

        Raises:
            ContractError: the dataset has neither.
        """
        entry = self._entry["metadata"] | {"answer": self._entry["answer"]}
        answer = next((entry[key] for key in ANSWERS if entry.get(key) is not None), None)
        if answer is None:
            raise ContractError(f"reasoning_gym/{self._name} has no oracle: its dataset contains no answer")
        return f"{OPEN}{json.dumps(answer) if isinstance(answer, dict) else answer}{CLOSE}"

    def state_key(self) -> str | None:
        """Return the question."""
        return str(self._entry["question"])


def evaluates(dataset: type) -> bool:
    """Return whether the module of a dataset evaluates any text as Python, be it only when it makes questions."""
    return EVALUATES.search(inspect.getsource(sys.modules[dataset.__module__])) is not None


def answer_of(text: str) -> str:
    """Return the answer in a message; ``""`` if there is none, or if it is too long to score."""
    _, found, rest = text.rpartition(OPEN)
    answer = (rest.partition(CLOSE)[0] if found else text).strip()
    return answer if len(answer) <= LONGEST_ANSWER else ""
