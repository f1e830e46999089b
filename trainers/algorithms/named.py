"""What ``trainers/on_policy.py`` knows by name: algorithms and modulators. A new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

from .algorithm import Algorithm
from .arpo import ARPO
from .duration import DurationWeighting
from .empg import EMPG
from .gigpo import GiGPO
from .grpo import GRPO
from .m_grpo import MGRPO
from .ppo import PPO
from .reinforce import Reinforce
from .rloo import RLOO
from .turn_credit import TurnCredit
from .vine_ppo import VinePPO

AnyAlgorithm = Annotated[
    Reinforce | RLOO | GRPO | MGRPO | GiGPO | TurnCredit | PPO | ARPO | VinePPO, pydantic.Field(discriminator="name")
]
"""What a configuration's ``algorithm`` may be; its ``name`` says which."""

AnyModulator = Annotated[EMPG | DurationWeighting, pydantic.Field(discriminator="name")]
"""What may stand among a configuration's ``modulators``."""

ALGORITHMS: Mapping[str, type[Algorithm]] = {
    kind.model_fields["name"].default: kind
    for kind in (Reinforce, RLOO, GRPO, MGRPO, GiGPO, TurnCredit, PPO, ARPO, VinePPO)
}
"""The same, by name."""


def algorithm_named(given: Any) -> type[Algorithm] | None:
    """The class that a configuration's ``algorithm`` means, before it is validated; ``None`` if it means none."""
    if isinstance(given, Algorithm):
        return type(given)
    name = given.get("name") if isinstance(given, Mapping) else None
    return ALGORITHMS.get(name) if isinstance(name, str) else None
