"""λ-returns of turns that were played, and how much of their variance a critic's V explains."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .multi_step import lambda_values, rewards
from .scaling import varies
from .transitions import Transition
from .utterance import UtteranceCritic


def lambda_returns(
    turns: Sequence[Transition], critic: UtteranceCritic, *, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Return ``G = r + γ N`` of each turn, where N is the λ-return from the next state on, and V(s), ``[N]``, 64-bit.

    Args:
        turns: N turns; those of an episode stand in order.
        critic: source of V, the mean of its heads.
        gamma: discount per turn.
        lam: λ per turn; 1 is the return as far as it was played, and V of the last state where the task did not end.
    """
    value_N = critic.v([turn.state_ids for turn in turns]).double().mean(0)
    next_1N = torch.zeros(1, len(turns), dtype=torch.float64)
    ongoing = [place for place, turn in enumerate(turns) if not turn.done]
    if ongoing:
        next_1N[0, ongoing] = critic.v([turns[place].next_ids for place in ongoing]).double().mean(0)
    reward_N, discount_N = rewards(turns, gamma)
    return reward_N + discount_N * lambda_values(turns, next_1N, gamma=gamma, lam=lam)[0], value_N


def explained(return_N: Tensor, value_N: Tensor) -> float:
    """``1 − Var(G − V) / Var(G)``: 1 if V knows every return, 0 for a constant or equal returns, negative for worse."""
    spread = float(return_N.var(correction=0))
    if not varies(spread, return_N):
        return 0.0
    return float(1 - (return_N - value_N).var(correction=0) / spread)
