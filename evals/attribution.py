"""Who fails may not choose not to be counted: when so much of a run is unscored that its success says nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..errors import EnvironmentFailedError, UsageError
from ..rollouts.episode import Episode, Outcome
from .failures import error_name

ENVIRONMENT_FAILED = EnvironmentFailedError.__name__
MOST_ERRORS = 5
"""How many different errors of an environment a summary lists."""
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


def environment_errors(episodes: Sequence[Episode]) -> dict[str, int]:
    """What environments raised, with the author's line, in how many episodes: the most frequent."""
    failed = [e for e in episodes if e.outcome is Outcome.INFRA_FAILED and error_name(e) == ENVIRONMENT_FAILED]
    counts = counted((e.error or "").removeprefix(f"{ENVIRONMENT_FAILED}: ") for e in failed)
    return dict(list(counts.items())[:MOST_ERRORS])


def judged_of(every: Sequence[Episode]) -> list[Episode]:
    """The scored episodes.

    Raises:
        UsageError: there are none, so nothing can be said about the policy.
    """
    judged = [episode for episode in every if episode.scored]
    if not judged:
        raise UsageError(_nothing(every))
    return judged


def _nothing(every: Sequence[Episode]) -> str:
    """Why there is nothing to summarise, and what to do."""
    if not every:
        return "there are no episodes to summarise; run some first (turnwise eval)"
    counts = ", ".join(f"{n} {outcome}" for outcome, n in counted(str(e.outcome) for e in every).items())
    first = next((e.error for e in every if e.error), None)
    return f"none of {len(every)} episodes is scored ({counts}): nothing is known about the policy" + (
        f"; the first error was: {first}" if first else ""
    )


def counted(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, most frequent first, ties by name."""
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))
