"""Step values: what rollouts from the states of a recorded episode returned."""

from __future__ import annotations

from .episode import Episode


def state_returns(episode: Episode, gamma: float = 1.0) -> list[list[float]]:
    """Return the discounted returns of the rollouts from the state before each turn, one list per turn.

    A rollout counts if the environment ended it. One that the infrastructure lost has no return. One that the policy
    did not finish has only the rewards up to that point.

    Args:
        episode: an episode, played with ``branching.strategy = "vine"`` if it has rollouts.
        gamma: discount per turn.
    """
    returns: list[list[float]] = [[] for _ in episode.turns]
    for ahead in episode.lookaheads:
        if ahead.outcome.trainable and ahead.turn < len(returns):
            returns[ahead.turn].append(sum(gamma**later * paid for later, paid in enumerate(ahead.rewards)))
    return returns


def state_values(episode: Episode, gamma: float = 1.0) -> list[float | None]:
    """Return V̂ of the state before each turn, the mean of ``state_returns``; ``None`` where there is none."""
    return [sum(each) / len(each) if each else None for each in state_returns(episode, gamma)]
