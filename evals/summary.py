"""Summary of a run of episodes, as a frozen record that can be saved as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic

from ..errors import StoreError
from ..inference.policy import Finish
from ..rollouts.episode import FAILURE_RATE, Episode, Outcome
from ..rollouts.provenance import Provenance
from .api_usage import ApiUsage, api_usage, rollouts_note, tokens_read, tokens_written
from .attribution import after_action, inconclusive, possible
from .failures import counted, environment_errors, error_name, failure_label, judged_of, unparsed
from .statistics import Estimate, mean_over_tasks, mean_return, pass_at_k, pass_hat_k, proportion

SUMMARY = "summary.json"
"""File name of the summary in the folder of an evaluation, beside its store."""


@dataclass(frozen=True, slots=True)
class PassK:
    """Success rates of ``k`` attempts at one task.

    Args:
        k: number of attempts.
        at: pass@k, the probability that at least one succeeds.
        hat: pass^k, the probability that all succeed.
    """

    k: int
    at: Estimate
    hat: Estimate


@dataclass(frozen=True, slots=True)
class Stratum:
    """One part of a run, e.g. one level.

    Args:
        name: ``"1"``, ``"test_iid"``, ``"rooms"``.
        episodes: scored episodes.
        tasks: different tasks among them.
        success: share of solved episodes.
        mean_return: undiscounted return.
        turns: turns per episode.
    """

    name: str
    episodes: int
    tasks: int
    success: Estimate
    mean_return: Estimate
    turns: float


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Wall time of episodes, in seconds summed over scored episodes.

    Args:
        policy: seconds from each request for an action to its answer, including a queue.
        environment: seconds from each call of the environment to its answer, including a wait for where it runs.
        turnwise: seconds of everything else, including the wait for other episodes of the same process.
    """

    policy: float
    environment: float
    turnwise: float

    @property
    def total(self) -> float:
        """Sum of all three."""
        return self.policy + self.environment + self.turnwise

    @property
    def shares(self) -> tuple[float, float, float]:
        """Return policy, environment and turnwise as fractions of the total; zeros if no time was recorded."""
        if self.total <= 0:
            return 0.0, 0.0, 0.0
        return self.policy / self.total, self.environment / self.total, self.turnwise / self.total


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a run of episodes of one policy.

    Infrastructure failures and cancelled episodes are counted separately and enter no average.

    Args:
        env_ids: ids of the environments.
        policy: name of the policy, as the user gave it; empty if unknown.
        episodes: number of all episodes.
        scored: number of scored episodes.
        tasks: number of different tasks among the scored episodes.
        success: share of scored episodes solved.
        mean_return: undiscounted return of scored episodes.
        pass_k: pass@k and pass^k, if tasks were tried several times.
        turns: turns per scored episode.
        action_tokens: sampled tokens per scored episode, with those of its rollouts (0 for scripted agents).
        prompt_tokens: prompt tokens read per scored episode, summed over its turns and those of its rollouts.
        time: wall time by component.
        outcomes: number of episodes by outcome.
        failures: number of failed scored episodes by kind of failure.
        infrastructure: number of episodes with an infrastructure failure by error.
        environment_errors: most frequent exceptions of environments, with the author's line.
        retried: number of episodes that needed more than one attempt.
        cancelled: number of episodes that were stopped.
        unparsed_actions: number of unreadable actions.
        cut_actions: number of actions that ended at the token limit.
        actions: number of all actions of scored episodes.
        checks: for each named check, the share of episodes in which it passed.
        levels, splits, templates: the same, part by part; empty if there is only one part.
        planned: number of requested episodes, if that is known.
        notes: remarks that a reader needs.
        api: tokens, cost and latency of a model behind a chat API; ``None`` for other policies.
        after_action: number of episodes in which the infrastructure failed after an action of the agent, including
            retried ones.
        inconclusive: reason why success is inconclusive because of infrastructure failures; empty if it is conclusive.
        possible: range in which success lies, if it is inconclusive.
        made: when and how the run was made, if that is known; two summaries with the same numbers are equal.
    """

    env_ids: tuple[str, ...]
    policy: str
    episodes: int
    scored: int
    tasks: int
    success: Estimate
    mean_return: Estimate
    pass_k: tuple[PassK, ...]
    turns: Estimate
    action_tokens: Estimate
    prompt_tokens: Estimate
    time: TimeSplit
    outcomes: Mapping[str, int]
    failures: Mapping[str, int]
    infrastructure: Mapping[str, int]
    retried: int
    cancelled: int
    unparsed_actions: int
    cut_actions: int
    actions: int
    checks: Mapping[str, Estimate] = field(default_factory=dict)
    levels: tuple[Stratum, ...] = ()
    splits: tuple[Stratum, ...] = ()
    templates: tuple[Stratum, ...] = ()
    planned: int | None = None
    notes: tuple[str, ...] = ()
    api: ApiUsage | None = None
    environment_errors: Mapping[str, int] = field(default_factory=dict)
    after_action: int = 0
    inconclusive: str = ""
    possible: tuple[float, float] | None = None
    made: Provenance | None = field(default=None, compare=False)

    @property
    def complete(self) -> bool:
        """Whether every planned episode is present and none was cancelled."""
        return not self.cancelled and (self.planned is None or self.episodes >= self.planned)

    @property
    def largest_k(self) -> PassK | None:
        """pass@k and pass^k for the largest k that at least half of the tasks have attempts for; for headlines."""
        return next((p for p in reversed(self.pass_k) if 2 * p.at.n >= self.tasks), None)

    @property
    def rank_key(self) -> tuple[bool, float, float]:
        """Sort key: best first, by success and then by return; inconclusive summaries last."""
        return bool(self.inconclusive), -self.success.value, -self.mean_return.value

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict that ``from_json`` reads back."""
        data: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Summary:
        """Read what ``to_json`` wrote."""
        return _ADAPTER.validate_python(dict(data))

    def save(self, path: Path | str) -> None:
        """Write the summary as indented JSON."""
        Path(path).write_bytes(_ADAPTER.dump_json(self, indent=2) + b"\n")

    @classmethod
    def load(cls, path: Path | str) -> Summary:
        """Read what ``save`` wrote.

        Raises:
            StoreError: there is no such file, or it is not a summary.
        """
        try:
            return _ADAPTER.validate_json(Path(path).read_bytes())
        except OSError as error:
            raise StoreError(f"cannot read summary {path}: {error}") from None
        except pydantic.ValidationError as error:
            raise StoreError(f"{path} is not a summary: {error.errors(include_url=False)[0]['msg']}") from None


_ADAPTER = pydantic.TypeAdapter(Summary)


def summarise(
    episodes: Iterable[Episode],
    *,
    policy: str = "",
    confidence: float = 0.95,
    planned: int | None = None,
    notes: Sequence[str] = (),
    made: Provenance | None = None,
    failure_rate: float = FAILURE_RATE,
) -> Summary:
    """Count and average a run of episodes, with intervals.

    Args:
        episodes: all episodes of the run, including unscored ones.
        policy: name of the policy, for display.
        confidence: nominal coverage of all intervals.
        planned: number of requested episodes.
        notes: remarks to include.
        made: when and how the run was made.
        failure_rate: share of the episodes in which the infrastructure may fail: see ``inconclusive``.

    Raises:
        UsageError: no episode is scored, so nothing is known about the policy.
    """
    judged = judged_of(every := _in_order(episodes))
    turns = [turn for episode in judged for turn in episode.turns]
    return Summary(
        env_ids=tuple(sorted({episode.env_id for episode in every})),
        policy=policy,
        episodes=len(every),
        scored=len(judged),
        tasks=len({task_of(episode) for episode in judged}),
        success=_success(judged, confidence),
        mean_return=_return(judged, confidence),
        pass_k=_pass_k(judged, confidence),
        turns=_mean(judged, lambda e: len(e.turns), confidence),
        action_tokens=_mean(judged, tokens_written, confidence),
        prompt_tokens=_mean(judged, tokens_read, confidence),
        time=_time(judged),
        outcomes=counted(str(episode.outcome) for episode in every),
        failures=counted(label for label in map(failure_label, judged) if label),
        infrastructure=counted(error_name(e) for e in every if e.outcome is Outcome.INFRA_FAILED),
        retried=sum(episode.attempts > 1 for episode in every),
        cancelled=sum(episode.outcome is Outcome.CANCELLED for episode in every),
        unparsed_actions=sum(map(unparsed, turns)),
        cut_actions=sum(turn.finish is Finish.LENGTH for turn in turns),
        actions=len(turns),
        checks=_checks(judged, confidence),
        levels=_strata(judged, lambda e: e.task.level, confidence),
        splits=_strata(judged, lambda e: str(e.task.split), confidence),
        templates=_strata(judged, lambda e: e.task.template, confidence),
        planned=planned,
        notes=(*notes, *rollouts_note(judged)),
        api=api_usage(every),
        environment_errors=environment_errors(every),
        after_action=after_action(every),
        inconclusive=inconclusive(every, failure_rate),
        possible=possible(every, failure_rate),
        made=made,
    )


def _in_order(episodes: Iterable[Episode]) -> list[Episode]:
    """Sort the episodes, so that sums do not depend on which finished first."""
    return sorted(episodes, key=lambda e: (*task_of(e), e.episode_id))


def task_of(episode: Episode) -> tuple[str, str]:
    """Return a key that is equal for attempts at the same task."""
    return episode.env_id, episode.task.digest


def _success(episodes: Sequence[Episode], confidence: float) -> Estimate:
    return proportion([e.success for e in episodes], [task_of(e) for e in episodes], confidence=confidence)


def _return(episodes: Sequence[Episode], confidence: float) -> Estimate:
    return mean_return([e.total_reward for e in episodes], [task_of(e) for e in episodes], confidence=confidence)


def _mean(episodes: Sequence[Episode], number: Callable[[Episode], float], confidence: float) -> Estimate:
    return mean_over_tasks([number(e) for e in episodes], [task_of(e) for e in episodes], confidence=confidence)


def _checks(episodes: Sequence[Episode], confidence: float) -> dict[str, Estimate]:
    names = sorted({name for episode in episodes if episode.score for name in episode.score.checks})
    return {name: _check(episodes, name, confidence) for name in names}


def _check(episodes: Sequence[Episode], name: str, confidence: float) -> Estimate:
    """Return how often a check passed, among the episodes whose task has it."""
    held = [(e.score.checks[name], task_of(e)) for e in episodes if e.score and name in e.score.checks]
    return proportion([h for h, _ in held], [task for _, task in held], confidence=confidence)


def _pass_k(episodes: Sequence[Episode], confidence: float) -> tuple[PassK, ...]:
    """Return pass@k and pass^k for k = 2, 4, 8, … and the largest group; each over the tasks with ``k`` attempts."""
    attempts = Counter(map(task_of, episodes))
    solved = Counter(task_of(e) for e in episodes if e.success)
    largest = max(attempts.values())
    sizes = {2**i for i in range(1, largest.bit_length()) if 2**i <= largest} | ({largest} if largest > 1 else set())
    found = []
    for k in sorted(sizes):
        counts = [(n, solved[task]) for task, n in attempts.items() if n >= k]
        at, hat = ([f(n, c, k) for n, c in counts] for f in (pass_at_k, pass_hat_k))
        found.append(PassK(k, proportion(at, confidence=confidence), proportion(hat, confidence=confidence)))
    return tuple(found)


def _time(episodes: Sequence[Episode]) -> TimeSplit:
    policy = sum(turn.seconds_policy for episode in episodes for turn in episode.turns)
    environment = sum(turn.seconds_env for episode in episodes for turn in episode.turns)
    total = sum(episode.seconds for episode in episodes)
    return TimeSplit(policy, environment, max(0.0, total - policy - environment))


def _strata(episodes: Sequence[Episode], part: Callable[[Episode], Any], confidence: float) -> tuple[Stratum, ...]:
    parts: dict[Any, list[Episode]] = {}
    for episode in episodes:
        parts.setdefault(part(episode), []).append(episode)
    if len(parts) < 2:
        return ()
    return tuple(
        Stratum(
            name=str(name),
            episodes=len(members),
            tasks=len({task_of(e) for e in members}),
            success=_success(members, confidence),
            mean_return=_return(members, confidence),
            turns=sum(len(e.turns) for e in members) / len(members),
        )
        for name, members in sorted(parts.items())
    )
