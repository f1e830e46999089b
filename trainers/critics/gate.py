"""The critic's gate: the actor begins when the critic ranks utterances, and not after a number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import pydantic

from ...config import Config
from .ranking import Ranking

CHANCE = 2.0
"""Standard errors by which a rank must exceed 0, so that a few states cannot open the gate by luck."""


class CriticGateConfig(Config):
    """When the actor begins: as soon as the critic ranks utterances as rollouts do."""

    rank: float = pydantic.Field(default=0.3, ge=0, lt=1)
    """Rank correlation (Kendall's τ-b within a state) above which the actor begins. It must also be two standard
    errors above 0."""
    states: int = pydantic.Field(default=64, ge=2)
    """Forked states in a measurement, each of another task. Only those in which returns differ count. Under chance, the
    standard error of 16 and of 64 such states is 0.25 and 0.12 with two utterances, and 0.12 and 0.06 with four."""
    min_states: int = pydantic.Field(default=10, ge=2)
    """Smallest number of states in which returns differ that can open the gate; at most ``states``."""
    utterances: int = pydantic.Field(default=4, ge=2)
    """Utterances in each state."""
    rollouts: int = pydantic.Field(default=4, ge=1)
    """Rollouts after each utterance. A measurement plays states × (1 + utterances × rollouts) episodes, and they all
    count as played."""
    every: int = pydantic.Field(default=5, ge=1)
    """Steps between measurements; the first is after ``warmup`` steps."""
    limit: int = pydantic.Field(default=50, ge=1)
    """Steps within which the gate must open. If it is closed after them, ``otherwise`` says what happens."""
    otherwise: Literal["stop", "start"] = "stop"
    """A gate that did not open within ``limit`` steps: ``stop`` ends the run with the policy unchanged; ``start`` lets
    the actor learn from the critic as it is."""
    watch: bool = False
    """Go on measuring after the gate has opened, to see whether the critic still ranks a sharper policy."""

    @pydantic.model_validator(mode="after")
    def _enough(self) -> Self:
        if self.min_states > self.states:
            raise ValueError(
                f"critic_gate.min_states = {self.min_states} is more than critic_gate.states = {self.states}: the gate "
                "could never open; raise states, or lower min_states"
            )
        return self


class CriticGate:
    """The state of the gate in a run; a checkpoint stores it.

    Args:
        config: its settings.
        first: number of steps before the first measurement.
    """

    def __init__(self, config: CriticGateConfig, *, first: int = 0) -> None:
        self.config, self.first = config, first
        self.open = False
        """Whether the actor learns."""
        self.seen = 0
        """Number of finished steps at the newest decision."""
        self.last: float | None = None
        """The rank of the newest measurement; ``None`` before the first with a result."""

    @property
    def failed(self) -> bool:
        """Whether the run ends because the gate did not open, with the present settings."""
        return not self.open and self.config.otherwise == "stop" and self.seen >= self.config.limit

    def due(self, step: int) -> bool:
        """Return whether a measurement follows so many finished steps."""
        since, within = step - self.first, step <= self.config.limit
        wanted = self.config.watch if self.open else within
        regular = since >= 0 and since % self.config.every == 0
        return wanted and (regular or (not self.open and step == self.config.limit))

    def see(self, step: int, found: Ranking | None) -> None:
        """Decide after so many finished steps.

        Args:
            step: the number of finished steps.
            found: the measurement, if one was due.
        """
        self.seen = step
        if found is not None and found.states:
            self.last = found.mean
        if self.open:
            return
        if found is not None and self.passes(found):
            self.open = True
        elif step >= self.config.limit:
            self.open = self.config.otherwise == "start"

    def passes(self, found: Ranking) -> bool:
        """Return whether a measurement opens the gate."""
        return found.states >= self.config.min_states and found.mean > max(self.config.rank, CHANCE * found.error)

    def reason(self) -> str:
        """Describe a closed gate, and say what to do."""
        rank = "no state could tell (critic/rank_silent)" if self.last is None else f"it was last {self.last:.2f}"
        return (
            f"the critic does not rank utterances: critic/rank is not above {self.config.rank:g} within "
            f"{self.config.limit} steps (critic_gate.limit); {rank}. Train with more critic_steps, or resume with a "
            "higher critic_gate.limit, or with critic_gate.otherwise = start"
        )

    def metrics(self) -> dict[str, float]:
        """Return whether it is open, as a number to log."""
        return {"critic/gate": float(self.open)}

    def state_dict(self) -> dict[str, Any]:
        """Return its state."""
        return {"open": self.open, "seen": self.seen, "last": self.last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.open, self.seen, self.last = bool(state["open"]), int(state.get("seen", 0)), state["last"]
