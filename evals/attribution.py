"""Who fails may not choose not to be counted: when so much of a run is unscored that its success says nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ..rollouts.episode import Episode, Outcome

FAILURE_RATE = 0.05
"""Share of the episodes in which the infrastructure may fail, unless a setting says otherwise."""


def after_action(episodes: Sequence[Episode]) -> int:
    """In how many episodes the infrastructure failed after an action of the agent, which may be what made it fail."""
    return sum(episode.after_action > 0 for episode in episodes)


def inconclusive(episodes: Sequence[Episode], limit: float = FAILURE_RATE) -> str:
    """Why success says nothing, with the range in which it lies; empty if the infrastructure failed seldom enough.

    An episode counts if it was not scored because the infrastructure failed, or if that failed after an action and
    another attempt was scored.

    Args:
        episodes: all of a policy, unscored ones included.
        limit: the largest share of them in which the infrastructure may fail.
    """
    excluded = sum(episode.outcome is Outcome.INFRA_FAILED for episode in episodes)
    failed = sum(episode.outcome is Outcome.INFRA_FAILED or episode.after_action > 0 for episode in episodes)
    if failed <= limit * len(episodes):
        return ""
    solved = sum(episode.scored and episode.success for episode in episodes)
    counted = sum(episode.scored for episode in episodes) + excluded
    text = (
        f"inconclusive: the infrastructure failed in {failed} of {len(episodes)} episodes, in {after_action(episodes)} "
        f"after an action of the agent; at most {100 * limit:g} % may fail"
    )
    if not excluded:
        return text
    return (
        f"{text}. If the {excluded} that are not scored count as failures, success is {100 * solved / counted:.1f} %, "
        f"and {100 * (solved + excluded) / counted:.1f} % if they count as successes"
    )
