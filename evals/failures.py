"""Why an episode did not succeed, in one word each."""

from __future__ import annotations

from enum import StrEnum

from ..rollouts.episode import Episode, Outcome, Turn


class FailureKind(StrEnum):
    """What a scored episode without success died of."""

    WRONG_ANSWER = "wrong answer"
    """The environment ended the episode, unsolved."""
    TURN_LIMIT = "turn limit"
    """The turns ran out."""
    UNPARSEABLE = "unparseable"
    """The last action, or at least half of all, could not be read."""
    POLICY_FAILED = "policy failed"
    """The policy timed out or ran out of context."""


def failure_kind(episode: Episode) -> FailureKind | None:
    """Why a scored episode failed; ``None`` if it succeeded.

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
    return FailureKind.TURN_LIMIT if episode.outcome is Outcome.TRUNCATED else FailureKind.WRONG_ANSWER


def failure_label(episode: Episode) -> str | None:
    """The kind, and for a failed policy the name of its error: ``"policy failed (PolicyTimeoutError)"``."""
    kind = failure_kind(episode)
    return f"{kind} ({error_name(episode)})" if kind is FailureKind.POLICY_FAILED else kind and str(kind)


def unparsed(turn: Turn) -> bool:
    """Whether the turn's action could not be read, by the agent's parser or by the environment."""
    return turn.action.problem is not None or bool(turn.info.get("unparsed"))


def error_name(episode: Episode) -> str:
    """The error's class as its one line names it (``"EnvironmentTimeoutError: no answer …"``), or ``"unknown"``."""
    head = (episode.error or "").partition(":")[0].strip()
    return head if head.isidentifier() else "unknown"
