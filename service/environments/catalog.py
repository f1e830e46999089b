"""The environments of a server: pools of hosts, descriptions, and digests."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import importlib.metadata
import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ...envs.registry import nearest
from ...errors import EnvironmentFailedError, InfrastructureError, RequestError, UsageError
from ...logs import event
from ...rollouts.hosts import Host, in_time
from ...rollouts.pool import EnvPool
from ...tasks.rng import stable_hash
from ...tasks.spec import TaskSpec
from .settings import ServeConfig

LOG = logging.getLogger(__name__)


class Served:
    """One environment of a server: a pool of hosts for episodes, and one host for questions about it.

    Args:
        id: id of the environment.
        config: settings of the server.
    """

    def __init__(self, id: str, config: ServeConfig) -> None:
        self.id, self._config = id, config
        self.pool = EnvPool.of(id, isolation=config.isolation, env_kwargs=config.env_kwargs)
        self.description: dict[str, Any] = {}
        """Description for clients, as JSON; empty until ``open``."""
        self._salt = secrets.token_bytes(32)
        self._asked: Host | None = None
        self._asking = asyncio.Lock()

    @property
    def digest(self) -> str:
        """Digest of the environment, its arguments, its source and the release of Turnwise."""
        return str(self.description["digest"])

    async def open(self) -> None:
        """Create one environment and describe it.

        Raises:
            UsageError: the environment cannot be created.
        """
        try:
            described = await self._question("describe")
        except EnvironmentFailedError as error:
            raise UsageError(str(error)) from None
        digest = served_digest(self.id, self._config.env_kwargs, described)
        described.pop("source")
        self.description = {"id": self.id, "digest": digest, **described}

    async def key(self, task: TaskSpec) -> str:
        """Return a key of the generated task, equal for equal tasks; without this server's salt it says nothing."""
        made = await self._question("instance", task)
        return hmac.new(self._salt, str(made).encode(), hashlib.sha256).hexdigest()[:32]

    async def close(self) -> None:
        """Close every environment."""
        await self.pool.close()

    async def _question(self, verb: str, argument: Any = None) -> Any:
        async with self._asking:
            kept, self._asked = self._asked, None  # until it has answered: a host that fails gets no further question
            if kept is not None:
                with contextlib.suppress(InfrastructureError):  # its process may have died while it was idle
                    return await self._put(kept, verb, argument)
            return await self._put(await self.pool.take(), verb, argument)

    async def _put(self, host: Host, verb: str, argument: Any) -> Any:
        try:
            answer = await in_time(host.describe() if verb == "describe" else host.instance(argument), verb, 60)
        except UsageError:
            self._asked = host
            raise
        except BaseException:
            self.pool.give(host, reusable=False)
            raise
        self._asked = host
        return answer


def served_digest(id: str, env_kwargs: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    """Return the digest of an environment, its arguments, its source and the release of Turnwise.

    Args:
        id: id of the environment.
        env_kwargs: its constructor arguments.
        described: its description, with ``source``; see ``envs.remote.description.describe``.
    """
    arguments = json.dumps(env_kwargs, sort_keys=True, default=repr)
    rest = json.dumps({key: described[key] for key in described if key != "source"}, sort_keys=True)
    parts = (id, arguments, importlib.metadata.version("turnwise"), str(described["source"]), rest)
    return stable_hash("served", *parts).hex()[:16]


class Catalog:
    """All environments of a server, by id.

    Args:
        ids: their ids; the first is the default for clients that name none.
        config: settings of the server.
    """

    def __init__(self, ids: Sequence[str], config: ServeConfig) -> None:
        if not ids:
            raise UsageError("name at least one environment to serve (`turnwise envs` lists them)")
        self._served = {id: Served(id, config) for id in dict.fromkeys(ids)}

    @property
    def first(self) -> Served:
        """The default environment."""
        return next(iter(self._served.values()))

    @property
    def digests(self) -> dict[str, str]:
        """Digest of each environment."""
        return {id: served.digest for id, served in self._served.items()}

    def find(self, id: Any, digest: Any = None) -> Served:
        """Return an environment.

        Raises:
            RequestError: there is none of this id, or it has another digest; the message has all ids.
        """
        served = self._served.get(id) if isinstance(id, str) else None
        if served is None:
            asked = str(id)[:100]
            near = nearest(asked, list(self._served))
            hint = f" Did you mean {near[0]}?" if near else ""
            known = f"there is no environment {asked!r} here; this server has {', '.join(self._served)}"
            raise RequestError(known + (f".{hint}" if hint else ""), code="unknown_environment")
        if digest is not None and digest != served.digest:
            raise RequestError(
                f"{id} has the digest {served.digest} here, and the client wants {str(digest)[:40]}: environment or "
                "release have changed; connect again",
                code="version",
            )
        return served

    def named(self, name: str) -> Served:
        """Return an environment by its id, or by the last part of its id if only one id ends in it.

        Raises:
            RequestError: there is none.
        """
        ids = [id for id in self._served if id.rpartition("/")[2] == name]
        return self.find(ids[0] if len(ids) == 1 and name not in self._served else name)

    @property
    def hosts(self) -> list[Host]:
        """Hosts of all environments, those for questions included, but no forks."""
        return [host for served in self._served.values() for host in served.pool.hosts]

    async def open(self) -> None:
        """Create one environment of each kind, and describe it."""
        for served in self._served.values():
            await served.open()
            event(LOG, "environment served", f"{served.id} {served.digest}", {"env": served.id})

    async def close(self) -> None:
        """Close every environment."""
        await asyncio.gather(*(served.close() for served in self._served.values()))
