"""λ-returns of played turns, and the share of their variance that V explains."""

from __future__ import annotations

from typing import cast

import pytest
import torch

from turnwise.trainers.critics.returns import explained, lambda_returns
from turnwise.trainers.critics.transitions import Transition
from turnwise.trainers.critics.utterance import UtteranceCritic

from .turns import step


class Clock:
    """A critic whose V is the first token of a state, by both heads."""

    def v(self, states: list[tuple[int, ...]], *, slow: bool = False) -> torch.Tensor:
        value_B = torch.tensor([float(state[0]) for state in states])
        return torch.stack([value_B, value_B])


def episode(*, done: bool) -> list[Transition]:
    """Three turns from states 1, 2 and 3 that earn 1, 2 and 4; where the task goes on, the next state is 8."""
    return [
        step((1,), (0,), 1.0, (2,)),
        step((2,), (0,), 2.0, (3,), turn=1),
        step((3,), (0,), 4.0, () if done else (8,), turn=2),
    ]


CRITIC = cast("UtteranceCritic", Clock())


@pytest.mark.parametrize(
    ("lam", "done", "expected"),
    [
        (1.0, True, [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4]),
        (1.0, False, [1 + 0.5 * (2 + 0.5 * 8), 2 + 0.5 * 8, 8]),
        (0.0, True, [1 + 0.5 * 2, 2 + 0.5 * 3, 4]),
    ],
    ids=["played to the end", "cut off: V goes on", "one turn ahead"],
)
def test_returns_of_played_turns(lam: float, done: bool, expected: list[float]) -> None:
    return_N, value_N = lambda_returns(episode(done=done), CRITIC, gamma=0.5, lam=lam)
    assert return_N.tolist() == expected
    assert value_N.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("value", "share"),
    [([0, 2, 4], 1.0), ([5, 7, 9], 1.0), ([3, 3, 3], 0.0), ([4, 2, 0], -3.0)],
    ids=["right", "right but for a constant", "a constant", "the wrong way"],
)
def test_the_share_of_variance_that_values_explain(value: list[float], share: float) -> None:
    assert explained(torch.tensor([0.0, 2.0, 4.0]), torch.tensor(value, dtype=torch.float32)) == pytest.approx(share)


def test_equal_returns_have_nothing_to_explain() -> None:
    assert explained(torch.ones(3), torch.tensor([0.0, 1.0, 5.0])) == 0.0
    nearly = torch.tensor([0.9, 0.6 + 0.3, 0.7 + 0.2]) * torch.tensor([1.0, 1.0 + 1e-7, 1.0])
    assert explained(nearly, torch.tensor([0.0, 1.0, 5.0])) == 0.0, "rounding is no variance"
