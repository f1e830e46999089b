"""Forked states read from their episodes: the utterances in a state, and the returns after each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...rollouts.episode import Episode

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForkedState:
    """A state in which the policy spoke several times.

    Args:
        state_ids: the prompt, exactly as the policy read it.
        utterances: the different utterances, in order of first occurrence.
        returns: discounted returns after each of them, from the state on; at least one each.
    """

    state_ids: Ids
    utterances: tuple[Ids, ...]
    returns: tuple[tuple[float, ...], ...]

    @property
    def means(self) -> tuple[float, ...]:
        """Mean return after each utterance."""
        return tuple(sum(each) / len(each) for each in self.returns)


def forked_states(episodes: Iterable[Episode], gamma: float) -> list[ForkedState]:
    """Read the states that ``rollouts/branching_utterances.py`` forked.

    Equal utterances count as one, with all of its returns. An utterance that ended the episode has one
    return, which is exact. Paths that the environment did not bring to an end have no return.

    Args:
        episodes: episodes of the strategy, in any order.
        gamma: discount per turn.

    Returns:
        One entry per state from which any path has a return, in the order of the episodes.
    """
    found: dict[str, tuple[Ids, dict[Ids, list[float]]]] = {}
    for episode in episodes:
        if episode.fork is None or not episode.outcome.trainable:
            continue
        origin = f"{episode.group_id}-0"
        turn = episode.fork.turn - (episode.fork.parent != origin)  # a path that repeats an utterance left a turn later
        said = episode.turns[turn]
        value = sum(gamma**later * each.reward for later, each in enumerate(episode.turns[turn:]))
        _, returns = found.setdefault(episode.group_id, (said.prompt_ids, {}))
        returns.setdefault(said.action_ids, []).append(value)
    return [
        ForkedState(state_ids, tuple(returns), tuple(tuple(each) for each in returns.values()))
        for state_ids, returns in found.values()
    ]
