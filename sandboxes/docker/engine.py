"""The connection to a Docker engine: finding one, calling it without blocking, and translating its errors."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from ...errors import SandboxError, SandboxUnavailableError
from ..loop import to_thread

if TYPE_CHECKING:
    from docker import APIClient

P = ParamSpec("P")
T = TypeVar("T")
PRIVATE = "turnwise-docker/docker.sock"
"""Path of the socket of ``scripts/start-docker``, in the folder for temporary files."""
USUAL = "/var/run/docker.sock"
THREADS = 8
NO_SDK = "the Docker SDK is missing: pip install 'turnwise[docker]'"
START = (
    "install and start one (https://docs.docker.com/engine/install, on Debian apt-get install docker.io; in a checkout "
    "of Turnwise, scripts/start-docker starts one as root), or set DOCKER_HOST=unix:///path to one that runs"
)
NONE_RUNS = f"no docker engine runs here: {START}"


def address() -> str:
    """Return the engine's address: ``DOCKER_HOST``, else that of ``scripts/start-docker``, else the machine's.

    Raises:
        SandboxUnavailableError: there is none, or it cannot be reached by one plain connection.
    """
    named = os.environ.get("DOCKER_HOST", "")
    if named.startswith(("unix://", "tcp://")) and not os.environ.get("DOCKER_TLS_VERIFY"):
        return named
    if named:
        raise SandboxUnavailableError(
            f"DOCKER_HOST={named} is not supported: sandboxes need an engine on this machine, at unix:///path"
        )
    private = Path(tempfile.gettempdir(), PRIVATE)
    # Any user may have created a folder there.
    if private.is_socket() and private.parent.stat().st_uid in (0, os.geteuid()):
        return f"unix://{private}"
    if Path(USUAL).is_socket():
        return f"unix://{USUAL}"
    raise SandboxUnavailableError(NONE_RUNS)


def _client_of(where: str) -> APIClient:
    from .client import client

    return client(where)


@dataclass(frozen=True, slots=True)
class Product:
    """A product whose engine has Docker's API.

    Args:
        name: name for messages.
        find: function that returns the engine's address; raises ``SandboxUnavailableError`` if there is none.
        client: function that connects to an address, once the Docker SDK is known to be there.
        start: sentence part for users without an engine: what to do.
    """

    name: str
    find: Callable[[], str]
    client: Callable[[str], APIClient]
    start: str


DOCKER = Product("docker", address, _client_of, START)


def connect(where: str | None = None, product: Product = DOCKER) -> APIClient:
    """Return a client of the engine, after checking that it answers.

    Args:
        where: address of the engine (default: the one that the product finds).
        product: product of the engine.

    Raises:
        SandboxUnavailableError: there is none, or the Docker SDK is missing.
    """
    try:
        import docker
        import requests
    except ImportError as error:
        raise SandboxUnavailableError(NO_SDK) from error
    where = where or product.find()
    try:
        return product.client(where)
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise SandboxUnavailableError(
            f"the {product.name} engine at {where} does not answer ({_cause(error)}): {product.start}"
        ) from error


def _cause(error: BaseException) -> str:
    """Return the text of the operating system in a chain of errors, each of which quotes the one before it."""
    while not isinstance(error, OSError) or error.strerror is None:
        inner = error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else str(error)


class Engine:
    """Calls one engine, in threads of its own, since the SDK blocks.

    Args:
        where: address of the engine (default: the one that the product finds at the first call).
        product: product of the engine.
    """

    def __init__(self, where: str | None = None, product: Product = DOCKER) -> None:
        self._where, self._product = where, product
        self._api: APIClient | None = None
        self.left: set[str] = set()
        """Containers to remove once the engine is back."""
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"turnwise-{product.name}")

    @property
    def where(self) -> str:
        """Its address."""
        self._where = self._where or self._product.find()
        return self._where

    @property
    def version(self) -> str:
        """Version of its API; known after the first call."""
        return str(self._client().api_version)

    async def ask(self, call: Callable[Concatenate[APIClient, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a call that blocks.

        Args:
            call: function that takes the client, and the other arguments.

        Raises:
            SandboxUnavailableError: there is no engine.
            SandboxError: it refused, or is down.
        """
        named = self._product.name
        return await to_thread(lambda: _translated(named, lambda: call(self._client(), *args, **kwargs)), self._threads)

    def _client(self) -> APIClient:
        with self._lock:
            if self._api is None:
                self._api = connect(self.where, self._product)
            return self._api

    def close(self) -> None:
        """Close the threads and connections; may be called again."""
        self._threads.shutdown(wait=False)
        if self._api is not None:
            self._api.close()
            self._api = None


def _translated(name: str, call: Callable[[], T]) -> T:
    """Return the result of a call, with its errors translated into this package's."""
    try:
        import docker
        import requests
    except ImportError as error:
        raise SandboxUnavailableError(NO_SDK) from error
    try:
        return call()
    except docker.errors.APIError as error:
        raise SandboxError(f"the {name} engine refused the request: {error.explanation or error}") from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise SandboxError(f"the {name} engine does not answer: {error}") from error
