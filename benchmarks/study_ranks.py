"""How ArCHer's critic ranks utterances along a run: measured beside the run, which learns nothing from it.

The measurement is that of ``[critic_gate]``: several utterances in a state, several rollouts after each, and Kendall's
τ-b of Q with the mean returns, averaged over states. In a run, its episodes count as played. Here they are an
instrument of the study: the gate opens after ``warmup`` steps whatever it finds, the episodes are subtracted from
those of the run, and their processor time is kept apart.
"""

from __future__ import annotations

import math
import statistics
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pydantic

from turnwise.config import Config
from turnwise.errors import UsageError
from turnwise.evals.curves import Run

SCRIPT = "archer"
EPISODES = "critic/rank_episodes"


class RankConfig(Config):
    """Measurements of the critic of every learner that runs ``archer``, from the end of its ``warmup`` on."""

    every: int = pydantic.Field(default=10, ge=1)
    """Steps between measurements."""
    states: int = pydantic.Field(default=25, ge=2)
    """States of a measurement, each in an episode of another task."""
    utterances: int = pydantic.Field(default=4, ge=2)
    """Utterances in each state."""
    rollouts: int = pydantic.Field(default=4, ge=1)
    """Rollouts after each utterance."""

    def gate(self, given: Mapping[str, Any], config: Path | None) -> dict[str, Any]:
        """Return settings of a gate that only watches.

        Args:
            given: settings of the learner.
            config: its shipped configuration, if it has one.

        Raises:
            UsageError: its ``warmup`` is 0; the first measurement would come before the gate opens, and decide.
        """
        from turnwise.trainers.archer_settings import ArcherConfig  # reports need no PyTorch

        shipped = tomllib.loads(config.read_text(encoding="utf-8")) if config else {}
        warmup = given.get("warmup", shipped.get("warmup", ArcherConfig.model_fields["warmup"].default))
        if warmup < 1:
            raise UsageError("[rank] measures critics from the end of their warm-up on: set warmup to 1 or more")
        return self.model_dump() | {"limit": warmup, "otherwise": "start", "watch": True, "min_states": 2}


@dataclass(frozen=True, slots=True)
class Rank:
    """A measurement of a critic.

    Args:
        episodes: episodes that the run had learned from.
        mean: mean rank correlation within states.
        error: its standard error over states.
        states: number of states in which returns differed.
    """

    episodes: float
    mean: float
    error: float
    states: float


def learned(run: Run) -> Run:
    """Return a run without the episodes of its measurements."""
    records = [
        {**record, "episodes": record["episodes"] - record[EPISODES]} if record.get(EPISODES) else record
        for record in run.records
    ]
    return replace(run, records=tuple(records))


def ranks_of(run: Run) -> list[Rank]:
    """Return the measurements of a run with a result; use ``learned`` before."""
    names = ("critic/rank", "critic/rank_error", "critic/rank_states")
    found = [run.series(name) for name in names]
    steps = [step for step in found[0] if all(step in series for series in found)]
    later = {int(record["step"]): float(record.get("episodes") or 0) for record in run.records}  # learned from after it
    return [Rank(found[0][step][0] - later[step], *(series[step][1] for series in found)) for step in steps]


def mean_rank(ranks: Sequence[Rank]) -> float | None:
    """Return the mean over all states of some measurements; ``None`` without any."""
    return statistics.fmean([rank.mean for rank in ranks], [rank.states for rank in ranks]) if ranks else None


def mean_error(ranks: Sequence[Rank]) -> float:
    """Return the standard error of this mean, from the spread over the states of each measurement."""
    return math.hypot(*(rank.states * rank.error for rank in ranks)) / sum(rank.states for rank in ranks)


class Timer:
    """Processor seconds that the measurements of this process take, from ``start`` on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def start(self) -> None:
        """Time every measurement of ArCHer's trainer."""
        from turnwise.trainers import archer

        own = archer.measure

        async def measure(*args: Any) -> Any:
            began = time.process_time()
            try:
                return await own(*args)
            finally:
                self.seconds += time.process_time() - began

        archer.measure = measure  # type: ignore[assignment]
