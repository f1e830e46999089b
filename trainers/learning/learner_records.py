"""The learner's numbers per episode, taken from the rows of a batch: what a kept episode is stored with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from ...rollouts.episode import Episode
from ...rollouts.learner_records import LearnerRecord, LearnerTurn
from .rows import Rows

Observe = Callable[[Sequence[Episode], Rows, Tensor | None], None]
"""Receives the episodes of a batch, their rows with advantages, and the critic's values ``[T]`` if there are any."""


def records_of(
    episodes: Sequence[Episode], rows: Rows, value_T: Tensor | None, *, step: int, only: frozenset[str]
) -> list[LearnerRecord]:
    """Return the records of some episodes of a batch.

    Args:
        episodes: all episodes of the batch; an episode index of the rows is an index into them.
        rows: their rows with ``advantage``, ``entropy`` and ``logp_old``.
        value_T: the critic's value of the state before each token, ``[T]``; ``None`` without a critic.
        step: training step, counted from 1.
        only: ids of the episodes whose records are wanted.
    """
    found, first = [], 0
    for number, episode in enumerate(episodes):
        if episode.episode_id in only:
            place_N = ((rows.episode == number) & rows.mask).nonzero()[:, 0]
            turns = tuple(
                _turn(rows, value_T, place_N[rows.turn[place_N] == first + turn]) for turn in range(len(episode.turns))
            )
            found.append(LearnerRecord(episode.episode_id, step, turns))
        first += len(episode.turns)
    return found


def _turn(rows: Rows, value_T: Tensor | None, place_N: Tensor) -> LearnerTurn:
    """Return the numbers of the tokens at these places, which are one turn's in order."""
    value = float(value_T[place_N[0]]) if value_T is not None and place_N.numel() else None
    return LearnerTurn(
        _numbers(rows.advantage, place_N), _numbers(rows.entropy, place_N), _numbers(rows.logp_old, place_N), value
    )


def _numbers(column_T: Tensor, place_N: Tensor) -> tuple[float, ...]:
    return tuple(column_T[place_N].tolist())
