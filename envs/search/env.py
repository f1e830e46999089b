"""``SearchEnv``: questions about a corpus, answered by searching, judged by the answer and its evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Literal, Self

from ...errors import UsageError
from ...tasks.family import TaskFamily
from ...tasks.rng import Rng, stable_hash
from ...tasks.score import Score
from ...tasks.search.custom_questions import questions_of
from ...tasks.search.family import SEARCH_FAMILY, SearchFamily
from ...tasks.search.task import SearchTask
from ..base import NearMiss
from ..contract import Contract
from ..fork import Forks
from ..messages import ActionLike, ObservationLike
from ..step import Step
from .acting import MOST_HITS, SearchTools
from .attacks import attacks_on
from .judging import Measures, measure, score
from .near_misses import near_misses
from .oracle import next_action, random_act
from .progress import LIMITS, Limits, Progress
from .prompts import introduction
from .reading import PART_WORDS, SNIPPET_WORDS
from .retrieval.engines import retriever_for
from .retrieval.retriever import Retriever

How = Literal["tools", "tags"]
Reward = Literal["success", "em", "f1", "checks"]
HITS_SHOWN = 5
"""Default number of hits. Where many pages name one thing, three would leave 2 % of the tasks unsolvable by tags."""
DOC_WORDS = 250
"""Words of a page in answer to a tag; longer pages are cut around the words of the query."""
PAGES = 300
"""Pages of the corpus that attacks open."""
REWARDS: Mapping[str, Callable[[Score, Measures], float]] = {
    "success": lambda judged, measures: float(judged.success),
    "em": lambda judged, measures: float(measures.exact),
    "f1": lambda judged, measures: measures.f1,
    "checks": lambda judged, measures: judged.fraction if measures.exact else 0.0,
}


@dataclass(frozen=True)
class SearchSnapshot:
    """State of an episode, as stored by a fork."""

    work: SearchTask
    engine: Retriever
    progress: Progress
    limits: Limits
    turns: int


class SearchEnv(SearchTools):
    """Answer a question by searching a corpus, opening pages and citing them.

    Success requires the right answer, evidence read for every fact that it rests on, and no citation of an unread page.
    A page counts as read when all of its words were shown, in a hit or by opening it.

    Args:
        actions: ``"tools"``: search, open, find and answer; ``"tags"``: search and answer, with results shown at once
            between ``<information>`` and ``</information>`` (Search-R1, 2503.09516).
        retriever: ``"fts5"``, ``"tantivy"``, or the URL of a service that speaks Search-R1's ``/retrieve``.
        reward: ``"success"``; ``"em"``: 1 for the right answer, read or guessed; ``"f1"``: F1 of the answer's tokens;
            ``"checks"``: the share of passing checks if the answer is right.
        k: default number of hits of a search.
        snippet: words of a page that a hit shows; 30 with tools, 250 with tags.
        searches: limit of searches; omitted, the level's own.
        words: limit of retrieved words shown; omitted, the level's own.
        templates: names of the templates to draw tasks from; omitted, all.
        pages: number of pages of every fictional wiki; omitted, the level's own.
        questions: path of a file with your own questions; see ``tasks/search/custom_questions.py``.
        corpus: path of the corpus for them, a file written by ``turnwise tasks build-corpus``; omitted if ``retriever``
            is a URL.
        brief: show the question without the rules, and no remaining budget; for models with a short context.
        max_turns: limit of actions per episode; omitted, the level's own.
        render_mode: Gymnasium's render mode.

    Raises:
        UsageError: an argument is invalid.
    """

    family: TaskFamily[SearchTask] | None = SEARCH_FAMILY
    forks = Forks.SNAPSHOT
    max_turns = LIMITS[5].turns
    contract = Contract(max_observation_chars=40_000, random_floor=0.01)

    def __init__(
        self,
        *,
        actions: How = "tools",
        retriever: str = "fts5",
        reward: Reward = "success",
        k: int | None = None,
        snippet: int | None = None,
        searches: int | None = None,
        words: int | None = None,
        templates: Sequence[str] | None = None,
        pages: int | None = None,
        questions: str | None = None,
        corpus: str | None = None,
        brief: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if actions not in ("tools", "tags"):
            raise UsageError(f"unknown actions {actions!r}; choose tools or tags")
        if reward not in REWARDS:
            raise UsageError(f"unknown reward {reward!r}; choose one of {', '.join(REWARDS)}")
        self.tags, self.rewarded, self.brief, self.retriever = actions == "tags", reward, brief, retriever
        self.k = _between("k", k, 1, MOST_HITS, HITS_SHOWN)
        self.snippet = _between("snippet", snippet, 1, PART_WORDS, DOC_WORDS if self.tags else SNIPPET_WORDS)
        self._searches, self._words = searches, words
        for name, least in (("searches", searches), ("words", words)):
            _between(name, least, 0, 10**9, 0)
        self._limited = max_turns is not None
        if questions is not None:
            if templates is not None or pages is not None:
                raise UsageError(
                    "templates and pages belong to the fictional wiki, not to questions=PATH: omit one of them"
                )
            self._ask_from(questions, corpus)
        elif corpus is not None or "://" in retriever:
            raise UsageError("the wiki's own questions are about the wiki: set questions=PATH with another corpus")
        elif templates is not None or pages is not None:
            self.tasks = partial(SearchFamily.chosen, templates, pages)  # type: ignore[method-assign]
            self.tasks()  # fails here if a template is unknown
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def _ask_from(self, questions: str, corpus: str | None) -> None:
        if (corpus is None) != ("://" in self.retriever):
            raise UsageError("questions need either corpus=PATH or the URL of a retriever, but not both")
        self.tasks = partial(questions_of, questions, corpus or self.retriever)  # type: ignore[method-assign]
        self.tasks()  # fails here if a file is missing or invalid

    # -- the episode ------------------------------------------------------------------------------------------------

    def start(self, task: SearchTask, rng: Rng) -> ObservationLike:
        """Ask the question."""
        self.work = task
        self.engine = self._engine(self.work)
        self.progress = Progress()
        level = LIMITS[self.task.level]
        self.limits = Limits(
            level.turns,
            level.searches if self._searches is None else self._searches,
            level.words if self._words is None else self._words,
        )
        if not self._limited:
            self.max_turns = level.turns
        if self.brief:
            return self.work.question
        return f"{introduction(self.limits, tags=self.tags)}\n\nQuestion: {self.work.question}"

    def ask(self, questions: TaskFamily[SearchTask]) -> Self:
        """Take the questions of another family from now on, and return the environment.

        Args:
            questions: the task family, such as ``ProvidedQuestions``.
        """
        self.tasks = partial(_itself, questions)  # type: ignore[method-assign]
        return self

    def _engine(self, work: SearchTask) -> Retriever:
        return _service(self.retriever) if "://" in self.retriever else retriever_for(work.corpus, self.retriever)

    def turns_at(self, level: int) -> int:
        """Return the turn limit of a level."""
        return self.max_turns if self._limited else LIMITS[level].turns

    # -- the end ----------------------------------------------------------------------------------------------------

    def measures(self) -> Measures:
        """Return the measures of the episode so far."""
        assert self.work is not None
        return measure(self.work, self.progress)

    def final_info(self) -> dict[str, Any]:
        """Return the entries that ``info`` gets at the end of an episode."""
        return self.measures().to_json()

    def judge(self) -> Score:
        """Score the answer, the reading of its evidence, and the citations."""
        return score(self.measures(), cites=not self.tags)

    def reward(self, score: Score) -> float:
        """Return the reward that the argument ``reward`` selects."""
        return REWARDS[self.rewarded](score, self.measures())

    def _stepped(self, step: Step) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        used = {"searches": len(self.progress.searched), "words": self.progress.words}
        info = {**used, **self.final_info()} if step.done else used
        return super()._stepped(replace(step, info={**step.info, **info}))

    # -- for certification, demonstrations and forks ----------------------------------------------------------------

    def oracle(self) -> ActionLike:
        """Return the next action of the task's lookups, or the answer with its citations."""
        assert self.work is not None
        return next_action(self.work, self.progress, k=self.k, opens=not self.tags)

    def random_action(self, rng: Rng) -> ActionLike:
        """Return a search for words seen so far, a page that was found, or some of these words as the answer."""
        assert self.work is not None
        return random_act(self.work, self.progress, rng, opens=not self.tags)

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return plays that almost solve the task, or only claim to."""
        assert self.work is not None
        return near_misses(self.work, opens=not self.tags)

    def attacks(self) -> Mapping[str, Sequence[ActionLike]]:
        """Return hostile inputs: queries that are syntax elsewhere, texts at their limits, and every page there is."""
        assert self.work is not None
        known = [page.id for page in islice(self.work.corpus, PAGES)] or ["1"]  # a service lists no pages
        return attacks_on(known)

    def secrets(self) -> Sequence[str]:
        """Return the answers of more than three characters; shorter ones, mostly numbers, occur in any text."""
        spellings = self.work.answers if self.work is not None and self.work.kind != "unanswerable" else ()
        return [one for one in spellings if len(one) > 3]

    def best_return(self) -> float:
        """Return the best return: 1 for success."""
        return 1.0

    def state_key(self) -> str:
        """Return a key for the searches, the words shown, and the answer."""
        now = self.progress
        shown = sorted(now.shown.items())
        return stable_hash(repr((now.searched, shown, now.opened, now.words, now.answer))).hex()[:32]

    def snapshot(self) -> SearchSnapshot:
        """Return the episode's state; pages and indices never change, so copies share them."""
        assert self.work is not None
        return SearchSnapshot(self.work, self.engine, self.progress, self.limits, self.max_turns)

    def restore(self, snapshot: SearchSnapshot) -> None:
        """Continue from a snapshot."""
        self.work, self.engine, self.progress = snapshot.work, snapshot.engine, snapshot.progress
        self.limits, self.max_turns = snapshot.limits, snapshot.turns


def _itself(questions: TaskFamily[SearchTask]) -> TaskFamily[SearchTask]:
    return questions


@lru_cache(maxsize=8)
def _service(url: str) -> Retriever:
    from .retrieval.remote import Remote  # imports HTTP, which nothing else here needs

    return Remote(url)


def _between(name: str, value: int | None, least: int, most: int, usual: int) -> int:
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise UsageError(f"{name} must be an integer from {least} to {most:,}; got {value!r}")
    return usual if value is None else value
