"""Who fails may not choose not to be counted: when so much of a run is unscored that its success says nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ..rollouts.episode import Episode, Outcome

FAILURE_RATE = 0.05
"""Share of the episodes in which the infrastructure may fail, unless a setting says otherwise."""
FEWEST = 3
"""Episodes in which the infrastructure must have failed before their share says anything."""
LATE = "(episode_timeout)"
"""What the error of an episode says that was not over in time."""


def after_action(episodes: Sequence[Episode]) -> int:
    """In how many episodes the infrastructure failed after an action of the agent, which may be what made it fail."""
    return sum(episode.after_action > 0 for episode in episodes)


def inconclusive(episodes: Sequence[Episode], limit: float = FAILURE_RATE) -> str:
    """Why success says nothing, with the range in which it lies; empty if the infrastructure failed seldom enough.

    An episode counts if it was not scored because the infrastructure failed, or if the agent then sampled again.
    Where the recorded actions were repeated exactly nothing was drawn, and it does not count.

    Args:
        episodes: all of a policy, unscored ones included.
        limit: the largest share of them in which the infrastructure may fail.
    """
    lost, repeated = sum(map(excluded, episodes)), sum(e.scored and e.redrawn > 0 for e in episodes)
    counted = sum(episode.scored for episode in episodes) + lost
    if lost + repeated < FEWEST or lost + repeated <= limit * counted:
        return ""
    low, high = _range(episodes)
    return (
        f"inconclusive: the infrastructure failed in {lost + repeated} of {counted} episodes: {lost} are not scored, "
        f"{repeated} were played again; at most {100 * limit:g} % may fail. In {after_action(episodes)} episodes it "
        f"failed after an action of the agent. If those {lost + repeated} count as failures, success is "
        f"{100 * low:.1f} %, and {100 * high:.1f} % if they count as successes"
    )


def possible(episodes: Sequence[Episode], limit: float = FAILURE_RATE) -> tuple[float, float] | None:
    """The range in which success lies, where it is inconclusive."""
    return _range(episodes) if inconclusive(episodes, limit) else None


def _range(episodes: Sequence[Episode]) -> tuple[float, float]:
    """The range in which success lies, whatever would have come of the episodes in which the infrastructure failed."""
    sure = [episode for episode in episodes if episode.scored and not episode.redrawn]
    open_ = sum(excluded(e) or (e.scored and e.redrawn > 0) for e in episodes)
    solved, whole = sum(episode.success for episode in sure), max(1, len(sure) + open_)
    return solved / whole, (solved + open_) / whole


def excluded(episode: Episode) -> bool:
    """Whether an episode is not scored because the infrastructure failed or kept it waiting."""
    late = episode.outcome is Outcome.CANCELLED and LATE in (episode.error or "")
    return late or episode.outcome is Outcome.INFRA_FAILED
