"""``Wire``: knowledge of an environment that it reaches only through a protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..base import TurnEnv


@dataclass(frozen=True, slots=True)
class Wire:
    """The connection to an environment on a server.

    Args:
        protocol: protocol of the server; it decides which laws can be tried.
        places: number of episodes that the server plays at a time; 0 if it does not say.
        no_oracle: why the client may not ask the oracle, where that is not the author's doing.
    """

    protocol: Literal["turnwise", "openenv", "nemo"]
    places: int = 0
    no_oracle: str = ""


def wire_of(env: TurnEnv) -> Wire | None:
    """Return the connection of an environment on a server; ``None`` for one of this process."""
    return getattr(env.unwrapped, "wire", None)
