"""Classify why episodes did not succeed, and why some are not scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from ..errors import EnvironmentFailedError, NothingScoredError, UsageError
from ..rollouts.episode import Episode, Outcome, Turn

ENVIRONMENT_FAILED = EnvironmentFailedError.__name__
MOST_ERRORS = 5
"""Maximum number of different environment errors in a summary."""


class FailureKind(StrEnum):
    """Kind of failure of a scored episode."""

    WRONG_ANSWER = "wrong answer"
    """The environment ended the episode, unsolved."""
    TURN_LIMIT = "turn limit"
    """The turns ran out."""
    UNPARSEABLE = "unparseable"
    """The last action, or at least half of all, could not be read."""
    POLICY_FAILED = "policy failed"
    """The policy timed out or ran out of context."""


def failure_kind(episode: Episode) -> FailureKind | None:
    """Return why a scored episode failed, or ``None`` if it succeeded.

    Raises:
        UnscoredEpisodeError: the episode was not judged, so it neither succeeded nor failed.
    """
    if episode.success:
        return None
    if episode.outcome is Outcome.POLICY_FAILED:
        return FailureKind.POLICY_FAILED
    unread = [unparsed(turn) for turn in episode.turns]
    if unread and (unread[-1] or 2 * sum(unread) >= len(unread)):
        return FailureKind.UNPARSEABLE
    return FailureKind.TURN_LIMIT if episode.out_of_turns else FailureKind.WRONG_ANSWER


def failure_label(episode: Episode) -> str | None:
    """Return the kind, and for a failed policy the name of its error: ``"policy failed (PolicyTimeoutError)"``."""
    kind = failure_kind(episode)
    return f"{kind} ({error_name(episode)})" if kind is FailureKind.POLICY_FAILED else kind and str(kind)


def unparsed(turn: Turn) -> bool:
    """Whether the turn's action could not be read, by the agent's parser or by the environment."""
    return turn.action.problem is not None or bool(turn.info.get("unparsed"))


def error_name(episode: Episode) -> str:
    """Return the error's class from its line (``"EnvironmentTimeoutError: no answer …"``), or ``"unknown"``."""
    head = (episode.error or "").partition(":")[0].strip()
    return head if head.isidentifier() else "unknown"


def environment_errors(episodes: Sequence[Episode]) -> dict[str, int]:
    """Return the most frequent exceptions of environments, with the author's line and the number of episodes."""
    failed = filter(environment_failed, episodes)
    counts = counted((e.error or "").removeprefix(f"{ENVIRONMENT_FAILED}: ") for e in failed)
    return dict(list(counts.items())[:MOST_ERRORS])


def environment_failed(episode: Episode) -> bool:
    """Whether an episode is unscored because the code of its environment raised an error."""
    return episode.outcome is Outcome.INFRA_FAILED and error_name(episode) == ENVIRONMENT_FAILED


def judged_of(every: Sequence[Episode]) -> list[Episode]:
    """Return the scored episodes.

    Raises:
        NothingScoredError: there are none, so nothing is known about the policy.
        UsageError: there are no episodes.
    """
    if not every:
        raise UsageError("there are no episodes to summarize; run some first (turnwise eval)")
    judged = [episode for episode in every if episode.scored]
    if not judged:
        raise NothingScoredError(_nothing(every))
    return judged


def _nothing(every: Sequence[Episode]) -> str:
    """Explain why there is nothing to summarize."""
    counts = ", ".join(f"{n} {kind}" for kind, n in counted(map(_unscored_kind, every)).items())
    first = next((e.error for e in every if e.error), None)
    return f"none of {len(every)} episodes is scored ({counts}): nothing is known about the policy" + (
        f"; the first error was: {first}" if first else ""
    )


def _unscored_kind(episode: Episode) -> str:
    if environment_failed(episode):
        return "environment bug"
    return "infrastructure" if episode.outcome is Outcome.INFRA_FAILED else str(episode.outcome)


def counted(names: Iterable[str]) -> dict[str, int]:
    """Count how often each name occurs, most frequent first, ties by name."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))
