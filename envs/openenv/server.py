"""``OpenEnvServer``: an OpenEnv server, by its address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..remote.address import Address
from ..remote.env import LOOP
from .env import OpenEnv
from .session import fetched


@dataclass(frozen=True, slots=True)
class OpenEnvServer:
    """A server of one OpenEnv environment; created by ``connect("openenv://host:port")``.

    Args:
        address: address of the server.
        base: path of the environment on the server; often empty.
    """

    address: Address
    base: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """The id of its environment, which every function and command accepts."""
        return (self.address.openenv_id(self.base),)

    def make(self, **kwargs: Any) -> OpenEnv:
        """Create the environment; the arguments are those of ``OpenEnv``, such as ``max_turns``."""
        return OpenEnv(self.address, self.base, **kwargs)

    def check(self) -> None:
        """Check that the server answers.

        Raises:
            UsageError: it refuses the token, or is not an OpenEnv server.
            InfrastructureError: it cannot be reached.
        """
        LOOP.wait(fetched(self.address, self.base, "schema"))
