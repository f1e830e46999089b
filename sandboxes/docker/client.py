"""The Docker SDK's client, changed to leave no socket open when its engine dies."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from docker import APIClient
from docker.constants import MINIMUM_DOCKER_API_VERSION
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = 60.0
"""Seconds that the engine may take to answer."""


class Connection(UnixHTTPConnection):
    """A connection that closes its socket if the engine does not listen; the SDK leaves it to the garbage collector."""

    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(TIMEOUT)
            made.connect(self.unix_socket)
        except BaseException:
            made.close()
            raise
        self.sock = made


class Pool(UnixHTTPConnectionPool):
    """A pool of such connections."""

    def _new_conn(self) -> Connection:  # type: ignore[override]  # the SDK's own has another base class, too
        return Connection(self.base_url, self.socket_path, int(TIMEOUT))


class Adapter(UnixHTTPAdapter):
    """An adapter with such a pool for its one address."""

    def get_connection(self, url: str | bytes, proxies: Mapping[str, str] | None = None) -> Pool:
        del proxies  # a socket of this machine has none
        with self.pools.lock:
            if url not in self.pools:
                self.pools[url] = Pool(str(url), self.socket_path, int(TIMEOUT), maxsize=self.max_pool_size)
            pool: Pool = self.pools[url]
        return pool


def client(where: str, kind: type[APIClient] = APIClient) -> APIClient:
    """Create a client with the API version that the engine at an address reports.

    Args:
        where: address of the engine, ``unix:///path`` or ``tcp://host:port``.
        kind: class of the client.

    Raises:
        DockerException, OSError: the engine does not answer.
    """
    with _client(where, MINIMUM_DOCKER_API_VERSION, kind) as asking:
        version = str(asking.version(api_version=False)["ApiVersion"])
    return _client(where, version, kind)


def _client(where: str, version: str, kind: type[APIClient]) -> APIClient:
    """Create a client that has sent no request yet."""
    made = kind(base_url=where, version=version, timeout=int(TIMEOUT))
    if where.startswith("unix://"):
        made.mount(f"{made.base_url}/", Adapter(where.replace("unix:", "http+unix:", 1), int(TIMEOUT)))
    return made
