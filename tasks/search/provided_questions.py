"""``ProvidedQuestions``: a family of questions that are available as objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import UsageError
from ..family import TaskFamily
from ..rng import Rng, stable_hash
from ..spec import Split, TaskSpec
from .task import SearchTask


class ProvidedQuestions(TaskFamily[SearchTask]):
    """Questions in memory, such as those that a policy has just proposed; the seed is the index of a question.

    Args:
        questions: the questions, in order.

    Raises:
        UsageError: there are no questions.
    """

    levels = (1, 2, 3, 4, 5)
    """Levels, which determine only the budget of an episode; the questions are the same."""
    splits = (Split.TRAIN,)

    def __init__(self, questions: Sequence[SearchTask]) -> None:
        if not questions:
            raise UsageError("a family needs at least one question")
        self.questions = tuple(questions)
        self.seeds = len(self.questions)
        asked = ((one.corpus.name, one.question, *one.answers) for one in self.questions)
        self.name = f"given-{stable_hash(*asked).hex()[:12]}"

    def __reduce__(self) -> Any:
        return (ProvidedQuestions, (self.questions,))

    def build(self, spec: TaskSpec, rng: Rng) -> SearchTask:
        """Return the question whose index is the seed."""
        return self.questions[spec.seed]
