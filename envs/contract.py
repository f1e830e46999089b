"""``Contract``: the limits and exemptions that certification applies to an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Contract:
    """The limits that an environment promises to keep; ``turnwise certify`` checks them.

    Set it in the class: ``contract = tw.Contract(random_floor=0.5)``. To change one limit of a base class, write
    ``contract = dataclasses.replace(Base.contract, random_floor=0.5)``.
    """

    max_observation_chars: int = 20_000
    """The maximum length of an observation, in characters."""
    max_seconds: float = 10.0
    """The maximum time that ``reset`` or ``step`` takes, in seconds."""
    null_floor: float = 0.0
    """The maximum return of an agent that says nothing. Such an agent must never succeed."""
    random_floor: float = 0.1
    """The maximum share of tasks that ``random_action`` solves, from 0 to 1."""
    exempt: Mapping[str, str] = field(default_factory=dict)
    """Laws that this environment cannot obey, each with the reason. ``{"all": reason}`` exempts from every law."""
