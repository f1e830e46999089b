"""Rounds of search self-play: propose questions, read and attempt them, and pay each of these episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any, Self

from ...agents.agent import Agent
from ...envs.registry import make
from ...envs.search.env import SearchEnv
from ...envs.search.proposing import SearchProposeEnv
from ...errors import InfrastructureError, PromptTooLongError, UsageError
from ...rollouts.episode import Episode
from ...rollouts.options import RunOptions
from ...rollouts.pool import EnvPool
from ...rollouts.runner import group_id
from ...rollouts.stats import RunStats
from ...tasks.family import TaskFamily
from ...tasks.search.matching import normalised
from ...tasks.search.provided_questions import ProvidedQuestions
from ...tasks.search.task import SearchTask
from ...tasks.spec import TaskSpec
from ..learning.groups import Group
from .collect import Collected, collect
from .sampler import family_and_tools

PROPOSER, READER = "turnwise/SearchPropose-v1", "turnwise/SearchDocuments-v1"


@dataclass(frozen=True, slots=True)
class Question:
    """A question that follows the rules.

    Args:
        about: task with the given answer.
        level: level of that task, which limits the cost of an episode.
        text: wording of the question.
        read: ids of the pages that the proposer had read.
    """

    about: SearchTask
    level: int
    text: str
    read: tuple[str, ...]

    @property
    def words(self) -> tuple[str, str]:
        """Key that is equal for questions about the same corpus in the same words."""
        return self.about.corpus.name, normalised(self.text)

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for indistinguishable questions, which have the same worth."""
        return *self.words, self.about.answers, self.read, self.level

    def for_reader(self) -> SearchTask:
        """Return the question together with the pages that it was made from."""
        pages = tuple((id,) for id in self.read)
        return replace(self._bare(), evidence=pages)

    def for_solver(self) -> SearchTask:
        """Return the question alone. The pages with the answer are unknown, so a right answer is enough."""
        return self._bare()

    def _bare(self) -> SearchTask:
        about = self.about
        return SearchTask(self.text, about.answers, (), (), about.corpus, about.template, "proposed", about.hops)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of the episodes about a question.

    Args:
        right: episodes that succeeded.
        wrong: episodes that did not, or that the agent did not finish.
        lost: episodes that the infrastructure lost.
    """

    right: int = 0
    wrong: int = 0
    lost: int = 0

    @classmethod
    def of(cls, group: Group) -> Self:
        """Count the episodes of a group."""
        right = sum(one.success for one in group.members)
        return cls(right, len(group.members) - right + group.policy_failed, group.excluded)

    @property
    def tried(self) -> int:
        """Number of episodes with a result."""
        return self.right + self.wrong

    @property
    def difficulty(self) -> float | None:
        """Share of failed episodes, if not all failed; ``None`` if there is no result."""
        if not self.tried:
            return None
        return self.wrong / self.tried if self.right else 0.0


def question_of(episode: Episode, family: TaskFamily[SearchTask]) -> Question | None:
    """Return the question that an episode proposed, if it follows the rules."""
    info = episode.turns[-1].info if episode.turns else {}
    if not episode.trainable or not info.get("valid"):
        return None
    return Question(family.generate(episode.task), episode.task.level, str(info["question"]), tuple(info["read"]))


def earning(episode: Episode, reward: float) -> Episode:
    """Return the same episode with the reward at its end, and 0 before."""
    last = len(episode.turns) - 1
    turns = (replace(turn, reward=reward if i == last else 0.0) for i, turn in enumerate(episode.turns))
    return replace(episode, turns=tuple(turns))


def seated(episode: Episode, seat: str) -> Episode:
    """Return the same episode with the seat of its agent."""
    return replace(episode, turns=tuple(replace(turn, seat=seat) for turn in episode.turns))


@dataclass(frozen=True, slots=True)
class Round:
    """A round of proposing, reading and solving.

    Args:
        proposing: episodes of the proposer, a group for every answer, paid by the results of their questions.
        solving: episodes of the solver, a group for every question that was verified.
        reading: episodes of the reader, which are not trained on.
        extra: numbers to log.
    """

    proposing: Collected
    solving: Collected
    reading: Collected
    extra: Mapping[str, float] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups to learn from: both sides, by the same policy."""
        return (*self.proposing.groups, *self.solving.groups)

    @property
    def tasks(self) -> int:
        """Number of given answers."""
        return self.proposing.tasks

    def metrics(self) -> dict[str, float]:
        """Numbers to log."""
        joined = Collected.joined([self.proposing, self.solving])
        lost = sum(group.excluded for group in self.reading.groups)
        failed = sum(group.policy_failed for group in self.reading.groups)
        read = {"reading/unscored": float(lost), "reading/policy_failed": float(failed)}
        return replace(joined, cost=joined.cost + self.reading.cost).metrics() | read | dict(self.extra)


@dataclass(slots=True)
class SelfPlay:
    """Plays rounds in which the same agent proposes, reads and solves.

    Args:
        env: id of the solver's environment.
        env_kwargs: arguments of all three environments.
        attempts: number of attempts of the proposer at every answer.
        tries: number of attempts of the solver at every question.
        readings: number of attempts of the reader at every question; all must be right, or it does not count.
        others: number of other pages among which the reader has to find the relevant ones.
        grammar: accept only questions that an exact reader of the fictional wiki answers in one way.

    Raises:
        UsageError: the solver's environment asks no questions of search.
    """

    env: str
    env_kwargs: Mapping[str, Any]
    attempts: int
    tries: int
    readings: int = 1
    others: int = 4
    grammar: bool = False
    proposers: EnvPool = field(init=False)
    family: TaskFamily[SearchTask] = field(init=False)

    def __post_init__(self) -> None:
        solver = make(self.env, **self.env_kwargs)
        kind = type(solver.unwrapped)
        solver.close()
        if not issubclass(kind, SearchEnv) or issubclass(kind, SearchProposeEnv):
            raise UsageError(
                f"self-play asks its questions in an environment of search, such as turnwise/Search-v1 or "
                f"turnwise/SearchTags-v1; {self.env} is none"
            )
        rules = {**self.env_kwargs, "grammar": self.grammar}
        self.proposers = EnvPool.of(PROPOSER, env_kwargs=rules)
        self.family, _ = family_and_tools(PROPOSER, rules)

    async def aclose(self) -> None:
        """Close the proposer's environments."""
        await self.proposers.close()

    async def round(self, agent: Agent, tasks: Sequence[TaskSpec], options: RunOptions) -> Round:
        """Have questions proposed, keep those that can be answered from their pages, and have them attempted.

        If the solver answers a question at least once, the proposer earns the share of failed attempts. Any other
        question earns nothing: one without a right attempt may have no answer, or several.

        Args:
            agent: agent that acts in every seat.
            tasks: tasks with the given answers.
            options: how to run; its seed names the round.
        """
        proposed = await collect(self.proposers, agent, tasks, options=_sized(options, self.attempts))
        asked = {one.episode_id: question_of(one, self.family) for one in proposed.episodes}
        questions = _told_apart([one for one in asked.values() if one is not None])
        reading, read = await self._asked(READER, agent, questions, options, self.readings, {"others": self.others})
        verified = [one for one, tally in zip(questions, read, strict=True) if tally.right == self.readings]
        solving, solved = await self._asked(self.env, agent, verified, options, self.tries, {})
        # Lost episodes have no result: a proposer is not scored if too much of its question's play is lost.
        worths: dict[object, float | None] = dict.fromkeys((one.key for one in questions), 0.0)
        worths |= {one.key: None for one, tally in zip(questions, read, strict=True) if not tally.wrong and tally.lost}
        worths |= {one.key: tally.difficulty for one, tally in zip(verified, solved, strict=True)}

        def worth(episode: Episode) -> float | None:
            question = asked[episode.episode_id]
            return 0.0 if question is None else worths.get(question.key, 0.0)

        played = [tally.right / tally.tried for tally in solved if tally.tried]
        found = {
            "proposals/valid": sum(one is not None for one in asked.values()) / max(len(asked), 1),
            "proposals/different": float(len(questions)),
            "proposals/verified": float(len(verified)),
            "proposals/lost": float(sum(one is None for one in worths.values())),
            **({"proposals/solved": fmean(played)} if played else {}),
        }
        return Round(_paid(proposed, worth), _each(solving, partial(seated, seat="solver")), reading, found)

    async def _asked(
        self,
        env: str,
        agent: Agent,
        questions: Sequence[Question],
        options: RunOptions,
        times: int,
        more: Mapping[str, Any],
    ) -> tuple[Collected, list[Tally]]:
        """Play a group of episodes about each question; also return a tally per question."""
        if not questions:
            return Collected((), RunStats()), []
        reads = env == READER
        given = ProvidedQuestions([one.for_reader() if reads else one.for_solver() for one in questions])
        kwargs = {**self.env_kwargs, **more}
        tasks = [given.spec(number, level=one.level) for number, one in enumerate(questions)]
        async with EnvPool(env, partial(_asking, env, kwargs, given), "thread", kwargs) as pool:
            try:
                played = await collect(pool, agent, tasks, options=_sized(options, times))
            except PromptTooLongError:  # raised if all prompts are too long, which here is a fault of the questions
                return Collected((), RunStats()), [Tally(wrong=times)] * len(tasks)
            except InfrastructureError:  # all were lost, perhaps only one; a lasting fault fails the next round too
                return Collected((), RunStats()), [Tally(lost=times)] * len(tasks)
        groups = {group.group_id: group for group in played.groups}
        ids = (group_id(env, task, number, options.seed) for number, task in enumerate(tasks))
        return played, [Tally.of(groups[one]) if one in groups else Tally(lost=times) for one in ids]


def _told_apart(proposed: Sequence[Question]) -> list[Question]:
    """Keep every question once, and none of those in the same words with different answers."""
    answers: dict[object, set[tuple[str, ...]]] = {}
    for one in proposed:
        answers.setdefault(one.words, set()).add(one.about.answers)
    return list({one.key: one for one in proposed if len(answers[one.words]) == 1}.values())


def _asking(env: str, kwargs: Mapping[str, Any], questions: ProvidedQuestions) -> Any:
    """Make an environment that asks questions of another family than its own."""
    made = make(env, **kwargs)
    inside: Any = made.unwrapped
    inside.ask(questions)
    return made


def _paid(proposed: Collected, worth: Callable[[Episode], float | None]) -> Collected:
    """Return the proposals, each with its worth; those whose worth was lost with the infrastructure are excluded."""

    def paid(group: Group) -> Group:
        worths = [(one, worth(one)) for one in group.members]
        members = tuple(seated(earning(one, value), "proposer") for one, value in worths if value is not None)
        return replace(group, members=members, excluded=group.excluded + len(worths) - len(members))

    return replace(proposed, groups=tuple(map(paid, proposed.groups)))


def _each(collected: Collected, change: Callable[[Episode], Episode]) -> Collected:
    return replace(collected, groups=tuple(replace(g, members=tuple(map(change, g.members))) for g in collected.groups))


def _sized(options: RunOptions, size: int) -> RunOptions:
    return options.model_copy(update={"group_size": size})
