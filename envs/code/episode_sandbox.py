"""``EpisodeSandbox``: a sandbox that lasts one episode, its last files, and its reliable destruction."""

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
"""An empty directory: the two blocks that end a tar archive."""


class EpisodeSandbox:
    """A sandbox that is created on first use and destroyed when this object is closed or garbage-collected.

    A sandbox that died of the code in it (the kernel killed it for memory), or of old age, is replaced by a new one
    with the files last read. Neither is an infrastructure failure.

    A copy, deep or not, is independent and starts with the files last read.

    Args:
        backend: name of the backend; ``None`` for the first confining one that works here.
        spec: specification of the sandbox.
        files: initial files, by path.
        start: snapshot of another sandbox with the initial files.
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
        self._used = True  # since its files were last read
        self._closed = False
        self._finalizer: weakref.finalize[[Sandbox], EpisodeSandbox] | None = None

    @property
    def backend(self) -> Backend:
        """The backend that creates the sandbox."""
        return shared_backend(self._name)

    @property
    def has_session(self) -> bool:
        """Whether a Python session was opened; snapshots do not contain its state."""
        return self._session is not None

    @property
    def digest(self) -> str | None:
        """Digest of the files as last read; ``None`` before the first reading."""
        return self._seen.digest if self._seen is not None else None

    async def sandbox(self) -> Sandbox:
        """Return the sandbox, and create it on first use.

        Raises:
            SandboxError: it could not be created, or has died.
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
        """Return the Python session; open one if there is none, or if the last one ended."""
        if self._session is None or not self._session.alive:
            self._session = await (await self.sandbox()).session("python")
        return self._session

    async def look(self) -> Snapshot:
        """Read the current files. The snapshot is empty if the code in the sandbox left them unreadable."""
        # Commands leave no processes behind that could change a file later, but a session may.
        if not self._closed and (self._used or self._session is not None):
            try:
                self._seen = await (await self.sandbox()).snapshot()
            except ToolError:  # the agent's doing: it costs the agent the episode, which still needs a score
                self._seen = EMPTY
            except SandboxError:
                if self._seen is None or self._sandbox is None or not await self._spent(self._sandbox):
                    raise
            self._used = False
        return self.seen

    @property
    def seen(self) -> Snapshot:
        """Files as last read.

        Raises:
            SandboxError: the files have not been read yet.
        """
        if self._seen is None:
            raise SandboxError("the files of this sandbox have not been read yet")
        return self._seen

    async def close(self) -> None:
        """Destroy the sandbox; the files last read stay available."""
        sandbox = self._left()
        if sandbox is not None:
            await sandbox.destroy()

    def abandon(self) -> None:
        """Destroy the sandbox in the background."""
        sandbox = self._left()
        if sandbox is not None:
            _abandoned(sandbox)

    async def _spent(self, sandbox: Sandbox) -> bool:
        """Return whether the sandbox died of age or for memory; any other death is an infrastructure failure."""
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

    def __deepcopy__(self, memo: dict[int, Any]) -> EpisodeSandbox:
        return EpisodeSandbox(self._name, self._spec, self._files if self._seen is None else None, self._seen)


def _abandoned(sandbox: Sandbox) -> None:
    LOOP.submit(sandbox.destroy())
