"""``PlacedServer``: a replica that a cluster places and starts again, and that may not see the driver's files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ...errors import InfrastructureError
from .http.client import ServerClient
from .http.delivery import deliver
from .launch.host import HostState, HostStatus, Listing, listing_of
from .launch.receiver import MODEL
from .server import Capabilities

NOWHERE = "http://not-placed.invalid"


class Host(Protocol):
    """A ``ServerHost`` on some machine."""

    async def status(self) -> HostStatus:
        """Return its state.

        Raises:
            InfrastructureError: it does not answer, e.g. since the cluster has no room for it yet.
        """
        ...

    async def find(self, folder: str, entry: str, listing: Listing) -> str:
        """Return the path of a folder of the driver on its machine, or nothing; see ``ServerHost.find``."""
        ...


class PlacedServer(ServerClient):
    """A client that asks the host of its server where the server is, whenever it probes.

    Args:
        name: name for messages, which stays when the server moves.
        host: host of the server.
        folder: folder of the model, sent to machines that lack it.
        push: whether to send all weights over HTTP, also to machines that see the folder.
        client: further arguments of ``ServerClient``.
    """

    portable = False
    """Whether another process can ask it without this one."""

    def __init__(self, name: str, host: Host, folder: Path, *, push: bool = False, **client: Any) -> None:
        super().__init__(NOWHERE, **client)
        self._name, self._host, self._folder, self._push = name, host, folder, push
        self._sending: asyncio.Task[str] | None = None
        self._receiving = asyncio.Lock()
        self.pushed = 0
        """Number of folders that were sent over HTTP."""

    @property
    def address(self) -> str:
        """Name of the replica, which stays the same wherever it is."""
        return self._name

    async def status(self) -> HostStatus:
        """Return the state of its host, go where the server is, and send the model to a machine that lacks it.

        Raises:
            InfrastructureError: the host does not answer.
        """
        found = await self._host.status()
        if found.state is HostState.LACKS_MODEL and (self._sending is None or self._sending.done()):
            # In the background: a request must not wait for it while other replicas answer.
            self._sending = asyncio.create_task(self._send(self._folder, MODEL, found))
            self._sending.add_done_callback(_retrieve)
        if found.state is HostState.READY:
            await self.point_at(found.url)
        return found

    async def probe(self) -> Capabilities:
        """Find the server and ask for its capabilities; see ``Sampler``."""
        found = await self.status()
        if found.state is not HostState.READY:
            why = f": {found.said}" if found.said else ""
            raise InfrastructureError(f"server {self.address} on {found.machine} is not ready ({found.state}{why})")
        return await super().probe()

    async def receive(self, folder: Path) -> Path:
        """See ``FolderReceiver``."""
        entry, listing = folder.name, await asyncio.to_thread(listing_of, folder)
        async with self._receiving:
            found = await self._host.find("" if self._push else str(folder), entry, listing)
            return Path(found or await self._send(folder, entry, await self._host.status()))

    async def update(self, info: Mapping[str, Any]) -> None:
        """Phase 3 of native weight transfer, from a folder that the server sees."""
        if "path" in info:
            info = {**info, "path": str(await self.receive(Path(info["path"])))}
        await super().update(info)

    async def reload(self, folder: Path) -> None:
        """Reload all weights, from a folder that the server sees."""
        await super().reload(await self.receive(folder))

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Load an adapter, from a folder that the server sees."""
        await super().load_adapter(name, await self.receive(folder))

    async def close(self) -> None:
        """Close connections; the server continues to run."""
        if self._sending is not None:
            self._sending.cancel()
        await super().close()

    async def _send(self, folder: Path, entry: str, to: HostStatus) -> str:
        await deliver(folder, to.receiver, to.key, entry)
        self.pushed += 1
        if not (found := await self._host.find("", entry, {})):
            raise InfrastructureError(f"server {self.address} moved to another machine while {entry} was sent")
        return found


def _retrieve(task: asyncio.Task[str]) -> None:
    """Take the error of a background task, which the next probe meets again."""
    if not task.cancelled():
        task.exception()
