"""The interface of a critic's loss: what an algorithm knows of a batch, and what it makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from .transitions import Transition


@dataclass(frozen=True, slots=True)
class Known:
    """Inputs for the targets of a batch of B transitions, all without gradient.

    Args:
        reward_B: reward of the turn, ``[B]``.
        done_B: whether the task ended with it, ``[B]``.
        span_B: number of turns until the next state, ``[B]``.
        return_B: recorded discounted return from the turn on, ``[B]``.
        next_v_2B: V̄ of the next state by each slow head, ``[2, B]``; 0 without a next state.
        taken_q_2B: Q̄ of the recorded utterance, ``[2, B]``.
        fresh_q_2B: Q̄ of a newly sampled utterance in the same state, ``[2, B]``; ``None`` without one.
    """

    reward_B: Tensor
    done_B: Tensor
    span_B: Tensor
    return_B: Tensor
    next_v_2B: Tensor
    taken_q_2B: Tensor
    fresh_q_2B: Tensor | None = None

    def part(self, place: Tensor) -> Known:
        """Return the same for some of the transitions."""
        fresh = None if self.fresh_q_2B is None else self.fresh_q_2B[:, place]
        one = (self.reward_B[place], self.done_B[place], self.span_B[place], self.return_B[place])
        return Known(*one, self.next_v_2B[:, place], self.taken_q_2B[:, place], fresh)


class CriticRule(Protocol):
    """The loss of the critic, which an algorithm defines."""

    def losses(self, q_2B: Tensor, v_2B: Tensor, known: Known) -> tuple[Tensor, Tensor]:
        """Return the loss of Q and of V for each transition, ``[B]`` each; the critic takes their means."""
        ...

    def targets(self, known: Known) -> tuple[Tensor, Tensor]:
        """Return the targets of Q and of V, ``[2, B]`` each, for heads with another loss than squared errors."""
        ...

    def ahead(self, batch: Sequence[Transition], known: Known) -> Known:
        """Return the same with values of next states that look several turns ahead, if the rule does."""
        ...
