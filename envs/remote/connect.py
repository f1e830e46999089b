"""``connect``: an environment server, by its address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ..base import TurnEnv
from ..openenv.env import OpenEnv
from ..openenv.session import fetched, places_at
from .address import Address, is_openenv, openenv_place, server_address
from .env import LOOP, hello_of, remote_env
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

    def make(self, env: str | None = None, **kwargs: Any) -> TurnEnv:
        """Create an environment.

        Args:
            env: the server's id of the environment (default: the only one).
            kwargs: arguments of an OpenEnv server's environment; other servers decide theirs themselves.

        Raises:
            UsageError: it has several, and none is named.
            UnknownEnvironmentError: it has no such environment.
        """
        known = tuple(self._hello().environments)
        if env is None and len(known) != 1:
            raise UsageError(f"{self.address} has {len(known)} environments; name one of {', '.join(known)}")
        return remote_env(self.address.id_of(env or known[0]), **kwargs)

    def _hello(self) -> Hello:
        return LOOP.wait(hello_of(self.address))


@dataclass(frozen=True, slots=True)
class OpenEnvServer(RemoteServer):
    """A server of one OpenEnv environment; ``connect("openenv://host:port")`` creates it.

    Args:
        address: address of the server.
        base: path of the environment on the server; often empty.
    """

    base: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """The id of its environment, which every function and command accepts."""
        return (self.address.openenv_id(self.base),)

    @property
    def capacity(self) -> int:
        """Number of sessions that it opens at a time, counted up to 8 by opening them."""
        return LOOP.wait(places_at(self.address, self.base))

    @property
    def load(self) -> int:
        """Always 0: OpenEnv announces no load."""
        return 0

    def make(self, env: str | None = None, **kwargs: Any) -> TurnEnv:
        """Create the environment; the arguments are those of ``OpenEnv``, such as ``max_turns``.

        Raises:
            UsageError: ``env`` is named, although there is only one.
        """
        if env is not None:
            raise UsageError(f"{self.address} has a single environment; leave out {env!r}")
        return OpenEnv(self.address, self.base, **kwargs)

    def check(self) -> None:
        """Check that the server answers.

        Raises:
            UsageError: it refuses the token, or is not an OpenEnv server.
            InfrastructureError: it cannot be reached.
        """
        LOOP.wait(fetched(self.address, self.base, "schema"))


def connect(url: str, *, token: str | None = None) -> RemoteServer:
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
