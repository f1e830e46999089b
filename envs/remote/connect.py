"""``connect``: an environment server, by its address."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UsageError
from ..openenv.server import OpenEnvServer
from .address import Address, is_openenv, openenv_place, server_address
from .env import LOOP, RemoteEnv, hello_of
from .frames import Hello


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server of environments; created by ``connect``.

    Its environments are environments like any other, under ids that every function and command accepts.

    Args:
        address: address of the server.
    """

    address: Address

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of its environments, such as ``turnwise://127.0.0.1:8765/turnwise/Maze-v0``."""
        return tuple(self.address.id_of(env) for env in self._hello().environments)

    @property
    def capacity(self) -> int:
        """Number of episodes that it plays at a time."""
        return self._hello().capacity

    @property
    def load(self) -> int:
        """Number of episodes that it played at the last heartbeat."""
        return self._hello().load

    def make(self, env: str | None = None) -> RemoteEnv:
        """Create an environment.

        Args:
            env: the server's id of the environment (default: the only one).

        Raises:
            UsageError: it has several, and none is named.
            UnknownEnvironmentError: it has no such environment.
        """
        known = tuple(self._hello().environments)
        if env is None and len(known) != 1:
            raise UsageError(f"{self.address} has {len(known)} environments; name one of {', '.join(known)}")
        return RemoteEnv(self.address, env or known[0])

    def _hello(self) -> Hello:
        return LOOP.wait(hello_of(self.address))


def connect(url: str, *, token: str | None = None) -> RemoteServer | OpenEnvServer:
    """Connect to a server of environments, and check that it accepts this client.

    Args:
        url: address of a server that ``turnwise serve`` started: ``ws://host:port``, or ``wss://host`` behind a proxy
            with TLS. ``openenv://host:port`` for an OpenEnv server.
        token: token or operator's key, kept for this server in this process (default: ``TURNWISE_TOKEN``).

    Raises:
        UsageError: the address is malformed, or the server refuses the token or the version.
        InfrastructureError: the server cannot be reached.
    """
    if is_openenv(url):
        address, base = openenv_place(url)
        address.keep_token(token)
        other = OpenEnvServer(address, base)
        other.check()
        return other
    address = server_address(url)
    address.keep_token(token)
    server = RemoteServer(address)
    server._hello()
    return server
