"""``Backend``: creates sandboxes, and declares what it can enforce on this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from ..errors import SandboxUnavailableError
from .sandbox import Sandbox
from .snapshot import Snapshot
from .spec import Limit, SandboxSpec


class Enforcement(StrEnum):
    """How well a limit is enforced."""

    ENFORCED = "enforced"
    """The kernel enforces it, whatever the code inside does."""
    BEST_EFFORT = "best effort"
    """It holds for honest code, or only roughly; ``how`` says what circumvents it."""
    ABSENT = "absent"
    """It is not enforced."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """How well one limit is enforced, and by what means; if it is not, why."""

    enforcement: Enforcement
    how: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a backend on this machine.

    Args:
        backend: name of the backend.
        available: whether it can create any sandbox.
        confines: whether untrusted code may run in it at all.
        why: software that it runs on, e.g. versions; if it is not available, what is missing and how to get it.
        limits: guarantee of each limit.
        notes: further remarks for careful users.
    """

    backend: str
    available: bool
    confines: bool
    why: str
    limits: Mapping[Limit, Guarantee] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def demand(self, spec: SandboxSpec) -> None:
        """Check that the backend can fulfill a spec.

        Raises:
            SandboxUnavailableError: the backend is not available, or cannot enforce limits that are not relaxed; the
                message names all of them.
        """
        if not self.available:
            raise SandboxUnavailableError(f"the sandbox backend {self.backend!r} is not available here: {self.why}")
        unknown = Guarantee(Enforcement.ABSENT, "the backend does not know it")
        held = {limit: self.limits.get(limit, unknown) for limit in Limit if limit not in spec.relaxed}
        absent = [limit for limit, each in held.items() if each.enforcement is Enforcement.ABSENT]
        if absent:
            reasons = dict.fromkeys(held[limit].how for limit in absent)
            listed = ", ".join(f'"{limit}"' for limit in (*sorted(spec.relaxed), *absent))
            raise SandboxUnavailableError(
                f"{self.backend} cannot limit {', '.join(absent)} here: {'; '.join(reasons)}. Use another "
                f"backend, or, if this code may run without these limits, set relaxed to [{listed}]: "
                f"SandboxSpec(relaxed=…) in Python, 'env_kwargs.relaxed=[{listed}]' for turnwise eval, "
                f"'episodes.env_kwargs.relaxed=[{listed}]' for train"
            )


@dataclass(frozen=True, slots=True)
class Reaped:
    """Numbers of objects that dead owners left behind, and that are now removed."""

    sandboxes: int = 0
    processes: int = 0
    directories: int = 0


class Backend(ABC):
    """Creates sandboxes of one kind. Third-party backends register in the entry-point group ``turnwise.sandboxes`` and
    are tested by the same suite: ``turnwise sandbox check NAME``.
    """

    name: ClassVar[str]

    @abstractmethod
    async def probe(self) -> Capabilities:
        """Find out by trial what it can do here, without leaving anything behind."""

    @abstractmethod
    async def create(
        self,
        spec: SandboxSpec | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        start: Snapshot | None = None,
    ) -> Sandbox:
        """Create a new sandbox, never one that was used before.

        Args:
            spec: specification of the sandbox; by default ``SandboxSpec()``.
            files: content of its working directory, by relative path.
            start: files of another sandbox to start with; ``files`` are added to them.

        Raises:
            SandboxUnavailableError: this machine cannot fulfill the spec.
            ToolError: a path of ``files`` is refused, or they do not fit.
            SandboxError: it could not be created this time.
        """

    def keep_ready(self, n: int) -> None:
        """Create this many sandboxes of the last requested kind ahead of time, each for one use, so that ``create`` and
        ``fork`` need not wait. A backend that does not support this does nothing.
        """
        del n

    @abstractmethod
    async def reap(self) -> Reaped:
        """Remove every sandbox of this backend on this machine whose owner, a process, is dead."""

    @abstractmethod
    async def close(self) -> None:
        """Destroy all sandboxes that this backend created, and release its resources. If it is used again afterwards,
        it must be closed again.
        """
