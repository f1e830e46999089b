"""``Room``: the sandbox of one episode, its files after the last action, and the care that nothing of it is left."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from ...errors import SandboxError, ToolError
from ...sandboxes.backend import Backend
from ...sandboxes.loop import LOOP
from ...sandboxes.sandbox import Sandbox, Session
from ...sandboxes.snapshot import Snapshot
from ...sandboxes.spec import SandboxSpec
from .backends import shared_backend

EMPTY = Snapshot(bytes(2 * 512))
"""A directory with nothing in it: the two blocks with which an archive ends."""


class Room:
    """A sandbox that is made when it is first needed, and destroyed when the room is closed or forgotten.

    One that has died of what ran in it (the kernel killed it for memory), or of old age, is replaced by another with
    the files that were last looked at: neither is a failure of the infrastructure.

    A copy, deep or not, is another room that begins with the files that were last looked at.

    Args:
        backend: the name of what makes it; ``None`` for the first that works here and confines.
        spec: what the sandbox is asked to be.
        files: what lies in it at first.
        start: what lies in it at first, as a snapshot of another.
    """

    def __init__(
        self,
        backend: str | None,
        spec: SandboxSpec,
        files: Mapping[str, bytes] | None = None,
        start: Snapshot | None = None,
    ) -> None:
        self._name, self._spec, self._files = backend, spec, dict(files or {})
        self._sandbox: Sandbox | None = None
        self._session: Session | None = None
        self._seen: Snapshot | None = start
        self._used = True  # since its files were last looked at
        self._closed = False
        self._finalizer: weakref.finalize[[Sandbox], Room] | None = None

    @property
    def backend(self) -> Backend:
        """What makes its sandbox."""
        return shared_backend(self._name)

    @property
    def has_session(self) -> bool:
        """Whether a Python session was opened in it: its state is in no snapshot."""
        return self._session is not None

    @property
    def digest(self) -> str | None:
        """Names the files as they were last looked at; ``None`` before."""
        return self._seen.digest if self._seen is not None else None

    async def sandbox(self) -> Sandbox:
        """The sandbox; made now if it has not been needed before.

        Raises:
            SandboxError: it could not be made, or has died.
        """
        if self._closed:
            raise SandboxError("the episode has ended, and so has its sandbox")
        self._used = True
        if self._sandbox is not None and await self._spent(self._sandbox):
            self._forget()
        if self._sandbox is None:
            files = self._files if self._seen is None else {}
            self._sandbox = await self.backend.create(self._spec, files=files, start=self._seen)
            self._finalizer = weakref.finalize(self, _abandoned, self._sandbox)
            self._finalizer.atexit = False  # then the backend is closed, and all that it made with it
        return self._sandbox

    async def session(self) -> Session:
        """Its Python session, opened now if there is none, or if the last one ended."""
        if self._session is None or not self._session.alive:
            self._session = await (await self.sandbox()).session("python")
        return self._session

    async def look(self) -> Snapshot:
        """Its files as they are now; none, if what ran there left them so that they cannot be read."""
        # Commands leave nothing running that could change a file later; a session may.
        if not self._closed and (self._used or self._session is not None):
            try:
                self._seen = await (await self.sandbox()).snapshot()
            except ToolError:  # the agent's doing: it must cost the agent the episode, and not the episode its score
                self._seen = EMPTY
            except SandboxError:
                if self._seen is None or self._sandbox is None or not await self._spent(self._sandbox):
                    raise
            self._used = False
        return self.seen

    @property
    def seen(self) -> Snapshot:
        """Its files as they were last looked at.

        Raises:
            SandboxError: nobody has looked.
        """
        if self._seen is None:
            raise SandboxError("the files of this sandbox have not been read yet")
        return self._seen

    async def close(self) -> None:
        """Destroy the sandbox; what was last seen of its files stays known."""
        sandbox = self._left()
        if sandbox is not None:
            await sandbox.destroy()

    def abandon(self) -> None:
        """``close`` without waiting for it."""
        sandbox = self._left()
        if sandbox is not None:
            _abandoned(sandbox)

    async def _spent(self, sandbox: Sandbox) -> bool:
        """Whether it is dead, and of its age or for memory; of anything else, it is the infrastructure that failed."""
        if sandbox.alive:
            return False
        stats = await sandbox.stats()
        return stats.seconds >= self._spec.limits.lifetime or bool(stats.oom_kills)

    def _left(self) -> Sandbox | None:
        self._closed = True
        return self._forget()

    def _forget(self) -> Sandbox | None:
        sandbox, self._sandbox = self._sandbox, None
        if self._finalizer is not None:
            self._finalizer.detach()
        return sandbox

    def __deepcopy__(self, memo: dict[int, Any]) -> Room:
        return Room(self._name, self._spec, self._files if self._seen is None else None, self._seen)


def _abandoned(sandbox: Sandbox) -> None:
    LOOP.submit(sandbox.destroy())
