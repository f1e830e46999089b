"""``Wire``: knowledge of an environment that it reaches only through a protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Wire:
    """The connection to an environment on a server.

    Args:
        protocol: protocol of the server; it decides which laws can be tried.
        places: number of episodes that the server plays at a time; 0 if it does not say.
        has_oracle: whether the client may ask an oracle.
        no_oracle: why it may not, where that is not the author's doing.
    """

    protocol: Literal["turnwise", "openenv", "nemo"]
    places: int = 0
    has_oracle: bool = False
    no_oracle: str = ""
