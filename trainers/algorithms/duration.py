"""Duration-aware weighting: asynchronous actors sample slow turns less often, so these turns get more weight."""

from __future__ import annotations

from typing import Literal

import torch

from ...errors import UsageError
from ..learning.batch import Batch
from ..learning.rows import Rows
from .modulator import Modulator, per_turn


class DurationWeighting(Modulator):
    """``A'(i, t) = A(i, t) · Δt / mean Δt``, Δt the wall time of turn t (Yang et al., arXiv 2509.01684).

    Suppose that actors act in parallel, and a learner takes whatever has arrived by a certain time. They deliver turns
    of length Δt at a rate of 1/Δt. In a sum over the collected turns, fast strategies are counted too often by exactly
    that factor, and a policy learns to be quick rather than right. Weighted by Δt, each strategy counts as often as it
    was *chosen*. Dividing by the mean over the batch's turns keeps the learning rate.

    Use it where the learner takes turns as they arrive. A round that waits for all of its episodes has no such bias,
    and weighting would add one. A baseline between the returns of the strategies keeps the signs right in any case.
    """

    name: Literal["duration"] = "duration"
    """Duration-aware weighting."""
    count: Literal["env", "all"] = "all"
    """Seconds that count: only the environment's (``env``), or the policy's too (``all``)."""

    def modulate(self, batch: Batch, rows: Rows) -> Rows:
        """Scale each turn's advantages by its duration.

        Raises:
            UsageError: no time was recorded for any turn.
        """
        turns = [turn for episode in batch.episodes for turn in episode.turns]
        seconds_U = torch.tensor([turn.seconds_env for turn in turns], dtype=torch.float64)
        if self.count == "all":
            seconds_U += torch.tensor([turn.seconds_policy for turn in turns], dtype=torch.float64)
        said_U = per_turn(batch, rows, rows.advantage)[1] > 0
        if not bool(said_U.any()):
            return rows
        mean = seconds_U[said_U].mean()
        if not mean > 0:
            raise UsageError(
                f"no turn of the batch's {len(turns)} took any time ({self.count}): duration weighting needs episodes "
                "whose seconds were recorded; leave the modulator out"
            )
        return rows.with_token_advantage(rows.advantage.double() * (seconds_U / mean)[rows.turn.clamp_min(0)])
