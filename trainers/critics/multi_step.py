"""Values of the next state that look several turns ahead: n-step and λ-returns along the turns of an episode.

Both are written as a value N of the *next* state, so that a target stays ``r + γ^span · (1 − done) · N``:

- one step: ``N_t = V(s_{t+1})``;
- n steps: ``N⁽¹⁾_t = V(s_{t+1})`` and ``N⁽ⁿ⁾_t = r_{t+1} + γ N⁽ⁿ⁻¹⁾_{t+1}``;
- TD(λ) (Sutton and Barto, 2nd ed., eq. 12.2 and 12.18): ``N_t = (1−λ) V(s_{t+1}) + λ (r_{t+1} + γ N_{t+1})``.

Where the next turn is not known, because the sample ends there, N is V(s_{t+1}). Turns after the first are those of the
policy that recorded them, without importance weights: with old turns, n and λ trade bias by the critic for bias by an
older policy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .transitions import Transition


def following(turns: Sequence[Transition]) -> list[int | None]:
    """Return the index of the turn that continues each one, if it stands directly behind it; ``None`` otherwise."""
    found: list[int | None] = [None] * len(turns)
    for place in range(len(turns) - 1):
        one, other = turns[place], turns[place + 1]
        same = one.episode_id == other.episode_id and other.turn == one.turn + one.span
        found[place] = place + 1 if same and not one.done else None
    return found


def rewards(turns: Sequence[Transition], gamma: float) -> tuple[Tensor, Tensor]:
    """Return the reward of each turn, and the factor on the value of its next state, ``[B]`` each, 64-bit."""
    discounts = [0.0 if each.done else gamma**each.span for each in turns]
    return torch.tensor([each.reward for each in turns], dtype=torch.float64), torch.tensor(
        discounts, dtype=torch.float64
    )


def lambda_values(turns: Sequence[Transition], value_KB: Tensor, *, gamma: float, lam: float) -> Tensor:
    """Return the values N of TD(λ), ``[K, B]``.

    Args:
        turns: B turns; those of an episode stand in order.
        value_KB: V of each next state, by K heads; ignored where the task ended.
        gamma: discount per turn.
        lam: λ per turn; 0 returns ``value_KB``, and 1 sums the rewards as far as they are known.
    """
    reward_B, discount_B = rewards(turns, gamma)
    found = list(value_KB.double().unbind(1))
    for place, after in reversed(list(enumerate(following(turns)))):
        if after is not None:
            ahead_K = reward_B[after] + discount_B[after] * _known(found[after], turns[after])
            found[place] = (1 - lam) * found[place] + lam * ahead_K
    return torch.stack(found, 1).to(value_KB.dtype)


def n_step_values(turns: Sequence[Transition], value_KB: Tensor, *, gamma: float, steps: int) -> Tensor:
    """Return the values N of n-step returns, ``[K, B]``.

    Args:
        turns: B turns; those of an episode stand in order.
        value_KB: V of each next state, by K heads; ignored where the task ended.
        gamma: discount per turn.
        steps: the largest number n of rewards in a target; 1 returns ``value_KB``.
    """
    reward_B, discount_B = rewards(turns, gamma)
    values, after_B = list(value_KB.double().unbind(1)), following(turns)
    found = values
    for _ in range(steps - 1):
        found = [
            values[place] if after is None else reward_B[after] + discount_B[after] * _known(found[after], turns[after])
            for place, after in enumerate(after_B)
        ]
    return torch.stack(found, 1).to(value_KB.dtype)


def _known(value_K: Tensor, turn: Transition) -> Tensor:
    """Return a value of a next state, or 0 where there is none, whatever stands in its place."""
    return torch.zeros_like(value_K) if turn.done else value_K
