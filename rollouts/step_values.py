"""Step values: what rollouts from the states of a recorded episode returned."""

from __future__ import annotations

from .episode import Episode


def state_returns(episode: Episode, gamma: float = 1.0) -> list[list[float]]:
    """Return the discounted returns of the rollouts from the state before each turn, one list per turn.

    One that the infrastructure lost has no return. One that the policy failed was paid for a part of the way. Without
    it, states after which the policy often fails would look good; with its rewards so far, failing early would be cheap
    where turns cost something. So it returns what the worst rollout from its state returned (of the episode, if no
    other from there was played to an end), or less if it has less already.

    Args:
        episode: an episode, played with ``branching.strategy = "vine"`` if it has rollouts.
        gamma: discount per turn.
    """
    ended: list[list[float]] = [[] for _ in episode.turns]
    failed: list[list[float]] = [[] for _ in episode.turns]
    for ahead in episode.lookaheads:
        if ahead.outcome.scored and ahead.turn < len(ended):
            found = ended if ahead.outcome.trainable else failed
            found[ahead.turn].append(sum(gamma**later * paid for later, paid in enumerate(ahead.rewards)))
    every = [value for values in ended for value in values]
    pairs = zip(ended, failed, strict=True)
    return [values + [min([value, *(values or every)]) for value in unended] for values, unended in pairs]


def state_values(episode: Episode, gamma: float = 1.0) -> list[float | None]:
    """Return V̂ of the state before each turn, the mean of ``state_returns``; ``None`` where there is none."""
    return [sum(each) / len(each) if each else None for each in state_returns(episode, gamma)]
