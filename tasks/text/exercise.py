"""``Exercise``: a question in words with one right answer, for pre-training and for probing language models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exercise:
    """One question with its answer.

    Args:
        kind: name of the skill that it exercises.
        question: text that the model reads.
        answer: the only right answer.
        choices: answers to guess from, in an exercise that can be guessed; the right one is among them.
        follow_ups: further questions about the same text, each with its answer, for training only.
    """

    kind: str
    question: str
    answer: str
    choices: tuple[str, ...] = ()
    follow_ups: tuple[tuple[str, str], ...] = ()

    @property
    def conversation(self) -> tuple[tuple[str, str], ...]:
        """Every question with its answer, the first one included."""
        return ((self.question, self.answer), *self.follow_ups)

    @property
    def chance(self) -> float:
        """Probability that a random choice is right; 0 if the answer cannot be guessed."""
        return 1 / len(self.choices) if self.choices else 0.0
