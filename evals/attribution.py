"""Detect infrastructure failures that make success inconclusive, so that an agent gains nothing by failing."""

from __future__ import annotations

from collections.abc import Sequence

from ..rollouts.episode import FAILURE_RATE, FEWEST_FAILURES, Episode, Outcome
from .failures import environment_failed

LATE = "(episode_timeout)"
"""Text in the error of an episode that did not end in time."""


def after_action(episodes: Sequence[Episode]) -> int:
    """Count episodes in which the infrastructure failed after an action of the agent, the possible cause."""
    return sum(episode.after_action > 0 for episode in episodes)


def inconclusive(episodes: Sequence[Episode], limit: float = FAILURE_RATE) -> str:
    """Say why success is inconclusive, with the range in which it lies; return ``""`` if failures are rare enough.

    An episode counts if it was not scored because the infrastructure failed, or if the agent then sampled again. It
    does not count if the recorded actions were repeated exactly, since nothing was sampled.

    Args:
        episodes: all episodes of a policy, including unscored ones.
        limit: the largest share of them in which the infrastructure may fail.
    """
    lost, repeated = sum(map(excluded, episodes)), sum(e.scored and e.redrawn > 0 for e in episodes)
    counted = sum(episode.scored for episode in episodes) + lost
    if lost + repeated < FEWEST_FAILURES or lost + repeated <= limit * counted:
        return ""
    low, high = _range(episodes)
    return (
        f"inconclusive: {_causes(episodes, lost + repeated)} of {counted} episodes: {lost} are not scored, "
        f"{repeated} were played again; at most {100 * limit:g} % may fail. In {after_action(episodes)} episodes it "
        f"failed after an action of the agent. If those {lost + repeated} count as failures, success is "
        f"{100 * low:.1f} %, and {100 * high:.1f} % if they count as successes"
    )


def _causes(episodes: Sequence[Episode], failed: int) -> str:
    """Say how many of the failed episodes are bugs of the environment, and how many failures of the infrastructure."""
    bugs = sum(map(environment_failed, episodes))
    if bugs == failed:
        return f"the environment raised an error in {bugs}"
    if not bugs:
        return f"the infrastructure failed in {failed}"
    return f"the environment raised an error in {bugs} and the infrastructure failed in {failed - bugs}"


def possible(episodes: Sequence[Episode], limit: float = FAILURE_RATE) -> tuple[float, float] | None:
    """Return the range in which success lies if it is inconclusive, or ``None``."""
    return _range(episodes) if inconclusive(episodes, limit) else None


def _range(episodes: Sequence[Episode]) -> tuple[float, float]:
    """Return the range of success over all possible results of the episodes in which the infrastructure failed."""
    sure = [episode for episode in episodes if episode.scored and not episode.redrawn]
    open_ = sum(excluded(e) or (e.scored and e.redrawn > 0) for e in episodes)
    solved, whole = sum(episode.success for episode in sure), max(1, len(sure) + open_)
    return solved / whole, (solved + open_) / whole


def excluded(episode: Episode) -> bool:
    """Whether an episode is unscored because the infrastructure failed or kept it waiting."""
    late = episode.outcome is Outcome.CANCELLED and LATE in (episode.error or "")
    return late or episode.outcome is Outcome.INFRA_FAILED
