"""Hand-written transitions and encoders for the tests of critics."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from turnwise.trainers.critics.transitions import Transition


def step(
    state: Sequence[int],
    action: Sequence[int],
    reward: float = 0.0,
    after: Sequence[int] = (),
    *,
    returned: float = 0.0,
    name: str = "e",
    turn: int = 0,
) -> Transition:
    """A transition; one without a next state ends the task."""
    said = tuple(action)
    logprobs = (-1.0,) * len(said)
    return Transition(tuple(state), said, logprobs, reward, tuple(after), not after, returned, 0, name, turn)


class Bag(nn.Module):
    """The smallest encoder: the sum of a vector per token. It counts what it reads."""

    def __init__(self, vocabulary: int = 8, width: int = 8) -> None:
        super().__init__()
        self.width = width
        self.table = nn.Embedding(vocabulary, width, _weight=torch.eye(vocabulary, width))
        self.read: list[tuple[int, ...]] = []

    def forward(self, sequences: Sequence[tuple[int, ...]]) -> Tensor:
        self.read += sequences
        return torch.stack([self.table(torch.tensor(sequence)).sum(0) for sequence in sequences])
