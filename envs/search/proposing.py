"""``SearchProposeEnv``: the reverse of ``SearchEnv``. It gives the answer, and the agent writes a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...errors import ToolError, UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng
from ...tasks.score import Score
from ...tasks.search.document import Corpus
from ...tasks.search.family import SearchFamily
from ...tasks.search.matching import betrayed, contained, normalised
from ...tasks.search.task import SearchTask
from ...tasks.search.templates.catalogue import TEMPLATES
from ...tasks.search.verifier.library import Library
from ..base import NearMiss
from ..messages import ActionLike, ObservationLike, ToolCall
from ..tools import Tool, tool
from .env import SearchEnv
from .progress import Answer, Progress
from .reading import length

MOST_WORDS = 60
"""Most words of a question."""
MOST_READ = 4_000
"""Most words of the pages that a question rests on; if the agent read more, those found last count."""
GUESSABLE = frozenset({"unanswerable", "count"})
"""Kinds of questions whose answers are unsuitable: none at all, and small numbers, which are easy to guess."""
PROPOSABLE = tuple(name for name, one in TEMPLATES.items() if one.kind not in GUESSABLE)
BY_TOOLS = " ".join(
    (
        "Write a question about the pages of a corpus. The answer below must be its only correct answer. Search and",
        "read first: someone who has to find the pages that you read must be able to answer the question from them.",
        "The question must not contain the answer. End with propose.",
    )
)
BY_TAGS = " ".join(
    (
        "Write a question about the pages of a corpus. The answer below must be its only correct answer. First search",
        "with <search>words</search>: someone who has to find the pages shown to you between <information> and",
        "</information> must be able to answer the question from them. The question must not contain the answer. End",
        "with <answer>, your question, and </answer>.",
    )
)


@dataclass(frozen=True)
class Proposal:
    """A question and the pages behind it.

    Args:
        question: text of the question.
        read: ids of the pages that it rests on.
        asks: whether there is a question of at most ``MOST_WORDS`` words.
        hides: whether the question contains neither the answer nor the id of a page, which would find itself.
        rests: whether a page that was read contains the answer.
        sure: whether all pages of the corpus give this answer to the question, and no other; ``None`` without
            ``grammar``.
    """

    question: str
    read: tuple[str, ...]
    asks: bool
    hides: bool
    rests: bool
    sure: bool | None = None

    @property
    def checks(self) -> dict[str, bool]:
        """The rules, and whether the question keeps them."""
        rules = {"asks": self.asks, "hides": self.hides, "rests": self.rests}
        return rules if self.sure is None else {**rules, "sure": self.sure}

    @property
    def valid(self) -> bool:
        """Whether the question keeps the rules. Without ``sure``, only an attempt shows whether it can be answered."""
        return all(self.checks.values())

    @classmethod
    def of(cls, task: SearchTask, progress: Progress, grammar: bool = False) -> Proposal:
        """Return the proposal of an episode.

        Args:
            task: the task whose answer was given.
            progress: the final progress of the episode.
            grammar: whether the question must be one that the wiki's grammar understands, with a single answer.
        """
        text = progress.answer.text.strip() if progress.answer is not None else ""
        read = _last_read(progress)
        pages = [progress.pages[id] for id in read]
        pages_text = " ".join(f"{page.title} {page.text}" for page in pages)
        return cls(
            question=text,
            read=read,
            asks=0 < len(text.split()) <= MOST_WORDS and bool(normalised(text)),
            hides=not any(betrayed(one, text) for one in task.answers)
            and not any(contained(id, text) and not contained(id, pages_text) for id in progress.pages),
            rests=any(contained(one, pages_text) for one in task.answers),
            sure=_is_sure(task, text) if grammar else None,
        )


class SearchProposeEnv(SearchEnv):
    """Write a question for a given answer, from pages that the agent searched and read (self-play's proposer).

    The tasks are those of ``SearchEnv``; the agent sees their answers but not their questions. An episode succeeds when
    the question keeps the rules: it does not contain the answer, and a page that the agent read does.
    ``trainers/self_play.py`` values the question by letting an agent answer it.

    Args:
        templates: names of the templates whose answers to use; omitted, all templates whose answers are names or years.
        grammar: accept only questions in wordings of the fictional wiki that its pages answer in one way. An exact
            reader of pages and questions decides, without a model, so that no question is ambiguous or unanswerable.
        kwargs: further arguments of ``SearchEnv``.

    Raises:
        UsageError: an argument is invalid, or ``grammar`` is set for a corpus of your own.
    """

    family: TaskFamily[SearchTask] | None = SearchFamily.only(PROPOSABLE)
    contract = replace(SearchEnv.contract, random_floor=1.0)  # random questions often keep the rules

    def __init__(self, *, templates: Sequence[str] | None = None, grammar: bool = False, **kwargs: Any) -> None:
        own = kwargs.get("questions") is not None
        if not isinstance(grammar, bool):
            raise UsageError(f"grammar is {grammar!r}; write true or false")
        if grammar and (own or kwargs.get("corpus") is not None):
            raise UsageError("grammar understands the pages of the fictional wiki: omit it with questions=PATH")
        self.grammar = grammar
        super().__init__(templates=PROPOSABLE if templates is None and not own else templates, **kwargs)

    def start(self, task: SearchTask, rng: Rng) -> ObservationLike:
        """Give the answer."""
        super().start(task, rng)
        assert self.work is not None
        if self.brief:
            return self.work.answers[0]
        costs = f"You have {self.limits.searches} searches and can read up to {self.limits.words:,} words of pages."
        return f"{BY_TAGS if self.tags else BY_TOOLS}\n{costs}\n\nAnswer: {self.work.answers[0]}"

    def offered(self) -> Sequence[Tool]:
        """Return all tools except ``answer``; with tags, which have no ``propose``, ``answer`` takes the question."""
        unwanted = "propose" if self.tags else "answer"
        return [one for one in super().offered() if one.name != unwanted]

    @tool(ends=True)
    def propose(self, question: str) -> str:
        """Propose the question. This ends the task.

        Args:
            question: the question, in at most 60 words, without the answer.
        """
        if len(question.split()) > MOST_WORDS:
            raise ToolError(f"a question can have at most {MOST_WORDS} words, not {len(question.split()):,}")
        self.progress = replace(self.progress, answer=Answer(question))
        return "The task has ended."

    def proposal(self) -> Proposal:
        """Return the proposal so far."""
        assert self.work is not None
        return Proposal.of(self.work, self.progress, self.grammar)

    def judge(self) -> Score:
        """Score whether the question keeps the rules."""
        made = self.proposal()
        return Score(made.valid, made.checks)

    def reward(self, score: Score) -> float:
        """Return 1 for success and 0 otherwise, or the share of rules kept."""
        if self.progress.answer is None:
            return 0.0
        return score.fraction if self.rewarded == "checks" else float(score.success)

    def final_info(self) -> dict[str, Any]:
        """Return the question and the pages that were read."""
        made = self.proposal()
        return {"question": made.question, "read": list(made.read), "valid": made.valid}

    def secrets(self) -> Sequence[str]:
        """Return no secrets: the answer is given."""
        return ()

    def oracle(self) -> ActionLike:
        """Read the evidence of the task's own question, and propose that question."""
        act = super().oracle()
        assert self.work is not None
        return self._ending(self.work.question) if _ends(act) else act

    def random_action(self, rng: Rng) -> ActionLike:
        """Search, open a page, or propose random words as the question."""
        act = super().random_action(rng)
        return self._ending(str(act.arguments["text"])) if isinstance(act, ToolCall) and _ends(act) else act

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: questions that break a rule."""
        assert self.work is not None
        right, question = self.work.answers[0], self.work.question

        def after(ending: str) -> NearMiss:
            """Read like the oracle, and propose another question."""

            def play(env: Any) -> ActionLike:
                act: ActionLike = env.unwrapped.oracle()
                return self._ending(ending) if _ends(act) else act

            return play

        return {
            "a question about what was not read": [self._ending(question)],
            "a question that tells its answer": after(f"{question} Is it {right}?"),
            "no question": after("?!"),
            "a question without an end": after("Which of them is it? " * MOST_WORDS),
            **({"a question that many answers fit": after("Which one is it?")} if self.grammar else {}),
        }

    def _ending(self, question: str) -> ToolCall:
        return ToolCall("answer", {"text": question}) if self.tags else ToolCall("propose", {"question": question})


def _last_read(progress: Progress) -> tuple[str, ...]:
    """Return the pages that were read completely, in the order of finding; of too many, the last ones."""
    kept: list[str] = []
    words = 0
    for id in reversed([id for id in progress.pages if progress.has_read(id)]):
        words += length(progress.pages[id])
        if words > MOST_READ:
            break
        kept.append(id)
    return tuple(reversed(kept))


def _is_sure(task: SearchTask, question: str) -> bool:
    """Return whether the corpus answers a question with the given answer alone."""
    found = _library(task.corpus).answers(question)
    return bool(found) and found <= set(task.answers)


@lru_cache(maxsize=16)
def _library(corpus: Corpus) -> Library:
    """Return the parsed pages of a wiki; corpora of equal names are equal."""
    return Library(corpus)


def _ends(act: ActionLike) -> bool:
    return isinstance(act, ToolCall) and act.name in ("propose", "answer")
