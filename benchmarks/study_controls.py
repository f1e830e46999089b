"""Controls of a study: learners with one part replaced by something that knows nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch

from turnwise.trainers.critics.utterance import UtteranceCritic

Ids = tuple[int, ...]
Control = Literal["noise"]
"""``noise``: ArCHer with noise of the size of its critic's advantages. What that reaches needs no critic."""


def noisy_advantages() -> None:
    """Let every critic of this process give its actor noise with the mean and deviation of its own advantages."""
    own, luck = UtteranceCritic.advantage, torch.Generator().manual_seed(0)

    def advantage(self: UtteranceCritic, states: Sequence[Ids], actions: Sequence[Ids]) -> torch.Tensor:
        true_B = own(self, states, actions)
        return true_B.mean() + true_B.std(correction=0) * torch.randn(true_B.shape, generator=luck)

    UtteranceCritic.advantage = advantage  # type: ignore[method-assign]


CONTROLS: Mapping[Control, Callable[[], None]] = {"noise": noisy_advantages}
"""Functions that install a control in the process of a run, before it trains."""
