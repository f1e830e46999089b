"""The learner's numbers per episode, taken from the rows of a batch: what a kept episode is stored with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from torch import Tensor

from ...errors import TurnwiseError
from ...rollouts.episode import Episode
from ...rollouts.learner_records import LearnerRecord, LearnerTurn
from .clips import ClipCounts
from .rows import Rows

Observe = Callable[[Sequence[Episode], Rows, Tensor | None, ClipCounts], None]
"""Receives the episodes of a batch after the updates of their step, their rows with advantages, the critic's values
``[T]`` if there are any, and which tokens the loss clipped."""


@contextmanager
def observed(
    observe: Observe | None, episodes: Sequence[Episode], rows: Rows, value_T: Tensor | None = None
) -> Iterator[ClipCounts | None]:
    """Observe a batch at the end of the block that makes its updates, also if they diverge.

    Args:
        observe: function that receives the batch; ``None`` to observe nothing.
        episodes: all episodes of the batch.
        rows: their rows with advantages.
        value_T: the critic's value of the state before each token, ``[T]``; ``None`` without a critic.

    Yields:
        Counts that the block fills; ``None`` without an observer.
    """
    if observe is None:
        yield None
        return
    clips = ClipCounts(rows)
    try:
        yield clips
    except TurnwiseError:
        with suppress(Exception):  # the first error counts
            observe(episodes, rows, value_T, clips)
        raise
    observe(episodes, rows, value_T, clips)


def records_of(
    episodes: Sequence[Episode],
    rows: Rows,
    value_T: Tensor | None,
    clips: ClipCounts,
    *,
    step: int,
    only: frozenset[str],
) -> list[LearnerRecord]:
    """Return the records of some episodes of a batch.

    Args:
        episodes: all episodes of the batch; an episode index of the rows is an index into them.
        rows: their rows with ``advantage``, ``entropy`` and ``logp_old``.
        value_T: the critic's value of the state before each token, ``[T]``; ``None`` without a critic.
        clips: clipped tokens of the step's updates.
        step: training step, counted from 1.
        only: ids of the episodes whose records are wanted.
    """
    found, first = [], 0
    for number, episode in enumerate(episodes):
        if episode.episode_id in only:
            place_N = ((rows.episode == number) & rows.mask).nonzero()[:, 0]
            turns = tuple(
                _turn(rows, value_T, clips, place_N[rows.turn[place_N] == first + turn])
                for turn in range(len(episode.turns))
            )
            updates = int(clips.updates[place_N].max()) if place_N.numel() else 0
            found.append(LearnerRecord(episode.episode_id, step, turns, updates))
        first += len(episode.turns)
    return found


def _turn(rows: Rows, value_T: Tensor | None, clips: ClipCounts, place_N: Tensor) -> LearnerTurn:
    """Return the numbers of the tokens at these places, which are one turn's in order."""
    value = float(value_T[place_N[0]]) if value_T is not None and place_N.numel() else None
    columns = (rows.advantage, rows.entropy, rows.logp_old)
    advantages, entropies, logprobs = (tuple(column_T[place_N].tolist()) for column_T in columns)
    low, high = (tuple(column_T[place_N].tolist()) for column_T in (clips.low, clips.high))
    return LearnerTurn(advantages, entropies, logprobs, value, low, high)
