"""Addresses of environment servers: ``ws://host:port`` for a server, ``turnwise://host:port/ID`` for an environment.

``turnwise://host:port,host:port/ID`` names an environment that several servers run.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...errors import UsageError

SCHEMES = {"turnwise": "ws", "turnwise+tls": "wss"}
"""Schemes of environment ids, and those of the socket."""
OPENENV = {"openenv": "ws", "openenv+tls": "wss"}
"""Schemes of ids of environments that an OpenEnv server runs."""
NEMO = {"nemo": "ws", "nemo+tls": "wss"}
"""Schemes of ids of resources servers of NeMo Gym, which are reached by HTTP."""
TOKEN = "TURNWISE_TOKEN"
"""Environment variable with the token of servers to which ``connect`` gave none.

``host:port=token`` is the token of one server; several are separated by commas. A token without a server goes only to
this machine and to servers that ``connect`` named, since an id may come from anyone.
"""
BOUND = re.compile(r"\s*(\[[0-9a-fA-F:.]+\]:\d+|[^\s:=\[\]]+:\d+)=(.+)")
"""A token that belongs to one server."""

_tokens: dict[Address, str | None] = {}
"""Tokens by server that ``connect`` named. They are kept out of ids, since ids are recorded with every episode."""


@dataclass(frozen=True, slots=True)
class Address:
    """One server.

    Args:
        host: name or IP address; IPv6 without brackets.
        port: port.
        tls: whether the connection is encrypted.
    """

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"{'wss' if self.tls else 'ws'}://{self._place}"

    @property
    def _place(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def id_of(self, env: str) -> str:
        """Return the id of one of the server's environments."""
        return f"{'turnwise+tls' if self.tls else 'turnwise'}://{self._place}/{env}"

    def openenv_id(self, base: str) -> str:
        """Return the id of the OpenEnv environment at a path of the server."""
        return f"{'openenv+tls' if self.tls else 'openenv'}://{self._place}{f'/{base}' if base else ''}"

    @property
    def token(self) -> str:
        """The token for this server, or an empty text."""
        if kept := _tokens.get(self):
            return kept
        bound, free = _from_environment()
        return bound.get(self._place.lower()) or (free if self in _tokens or _loopback(self.host) else "")

    @property
    def token_hint(self) -> str:
        """Advice for a user whose token the server refuses."""
        if self in _tokens or _loopback(self.host):
            return f"set {TOKEN}, or use tw.connect(url, token=...)"
        return (
            f"a plain {TOKEN} is not sent to other machines: set {TOKEN}={self._place}=TOKEN, or use "
            "tw.connect(url, token=...)"
        )

    def keep_token(self, token: str | None) -> None:
        """Use a token for this server from now on, in this process (default: ``TURNWISE_TOKEN``)."""
        if token is not None or self not in _tokens:
            _tokens[self] = token


def is_remote(id: object) -> bool:
    """Whether an environment id names an environment of a server."""
    return _has_scheme(id, SCHEMES)


def is_openenv(id: object) -> bool:
    """Whether an environment id names an OpenEnv server: ``openenv://host:port``."""
    return _has_scheme(id, OPENENV)


def is_nemo(id: object) -> bool:
    """Whether an environment id names a resources server of NeMo Gym: ``nemo://host:port``."""
    return _has_scheme(id, NEMO)


def is_foreign(id: object) -> bool:
    """Whether an environment id names a server that speaks the protocol of another project."""
    return is_openenv(id) or is_nemo(id)


def _has_scheme(id: object, schemes: Collection[str]) -> bool:
    return isinstance(id, str) and id.partition("://")[0] in schemes and "://" in id


def nemo_place(id: str) -> Address:
    """Return the server of ``nemo://host:port``.

    Raises:
        UsageError: it has no port, a path, or credentials.
    """
    address, path = _parsed(id, NEMO)
    if path:
        raise UsageError(
            f"{id} has a path; a resources server of NeMo Gym is at the root: write {id[: -len(path) - 1]}"
        )
    return address


def openenv_place(id: str) -> tuple[Address, str]:
    """Return the server and the path of ``openenv://host:port/path``; the path is often empty.

    Raises:
        UsageError: it has no port, or credentials.
    """
    return _parsed(id, OPENENV)


def remote_id(id: str) -> tuple[Address, str]:
    """Return the server and the server's own id of ``turnwise://host:port/ID``.

    Raises:
        UsageError: it has no port, no id, or credentials.
    """
    address, path = _parsed(id, SCHEMES)
    if not path:
        raise UsageError(f"{id} names a server, but no environment; write {id.rstrip('/')}/turnwise/Maze-v0")
    return address, path


def servers_of(id: str) -> tuple[str, ...]:
    """Return the id on each server of ``turnwise://host:port,host:port/ID``.

    Raises:
        UsageError: a place in the list is empty, or has a space.
    """
    scheme, separator, rest = id.partition("://")
    places, slash, env = rest.partition("/")
    if "," in places and not all(place and place == place.strip() for place in places.split(",")):
        raise UsageError(f"{id!r} has an empty place or a space in its list of servers: write {scheme}://a:1,b:2/ID")
    return tuple(f"{scheme}{separator}{place}{slash}{env}" for place in dict.fromkeys(places.split(",")))


def token_variable(id: str) -> dict[str, str]:
    """Return the environment variable that gives another process the tokens of an id's servers; none without one."""
    if not (is_remote(id) or is_foreign(id)):
        return {}
    if is_foreign(id):
        servers = [nemo_place(id) if is_nemo(id) else openenv_place(id)[0]]
    else:
        servers = [remote_id(each)[0] for each in servers_of(id)]
    tokens = ",".join(f"{server._place}={server.token}" for server in servers if server.token)
    return {TOKEN: tokens} if tokens else {}


def meant_as_remote(id: str) -> str:
    """Return advice for the address of a server where an id belongs, such as ``ws://host:port/ID``; else ``""``."""
    scheme, found, rest = id.partition("://")
    tls = {"ws": False, "http": False, "wss": True, "https": True}.get(scheme)
    if not found or tls is None:
        return ""
    place, _, env = rest.partition("/")
    return f"write {'turnwise+tls' if tls else 'turnwise'}://{place}/{env or 'turnwise/Maze-v0'}"


def server_address(url: str) -> Address:
    """Return the server of ``ws://host:port``; ``http://`` means the same.

    Raises:
        UsageError: it is not the address of a server.
    """
    address, path = _parsed(url, {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"} | SCHEMES)
    if path:
        raise UsageError(f"{url} has a path; connect to the server, {address}, and name the environment in make()")
    return address


def _parsed(url: str, schemes: Mapping[str, str]) -> tuple[Address, str]:
    known = f"write {next(iter(schemes))}://host:port"
    if "," in url.partition("://")[2].partition("/")[0]:
        raise UsageError(f"{url} names several servers, and only turnwise:// ids of runs may; name one here")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is not the address of a server: {error}; {known}") from None
    if parts.scheme not in schemes or not parts.hostname:
        raise UsageError(f"{url!r} is not the address of a server; {known}")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            f"the address of {parts.hostname} may hold no credentials and no parameters, since it is recorded; set "
            f"{TOKEN}, or use tw.connect(url, token=...)"
        )
    tls = schemes[parts.scheme] == "wss"
    if port is None and not (tls or parts.scheme == "http"):
        raise UsageError(f"{url!r} names no port; {known}")
    return Address(parts.hostname, port or (443 if tls else 80), tls), parts.path.strip("/")


def served_token() -> str:
    """Return the token of ``TURNWISE_TOKEN`` for a server that starts here, or an empty text.

    Raises:
        UsageError: all its tokens belong to servers that it names.
    """
    bound, free = _from_environment()
    if bound and not free:
        raise UsageError(
            f"{TOKEN} only has tokens for {', '.join(bound)}, which clients use; choose this server's with --token"
        )
    return free


def refuse_bound(token: str) -> None:
    """Refuse ``host:port=token`` where a token of this machine's own server belongs.

    Raises:
        UsageError: it names a server.
    """
    if match := BOUND.fullmatch(token):
        raise UsageError(f"a server's own token names no server: write --token without {match[1]}=")


def _from_environment() -> tuple[dict[str, str], str]:
    """Return the tokens of ``TURNWISE_TOKEN`` by ``host:port``, and the one without a server."""
    bound, free = {}, []
    for part in os.environ.get(TOKEN, "").split(","):
        if match := BOUND.fullmatch(part):
            bound[match[1].lower()] = match[2].strip()
        else:
            free.append(part)
    return bound, ",".join(free)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
