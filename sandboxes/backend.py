"""``Backend``: what makes sandboxes, and says beforehand what it can enforce here."""

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
    """How well a limit holds."""

    ENFORCED = "enforced"
    """The kernel holds it, whatever the code inside does."""
    BEST_EFFORT = "best effort"
    """It holds for honest code, or only roughly; ``how`` says what gets past it."""
    ABSENT = "absent"
    """It does not hold."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """How well one limit holds, and by what means or for what reason not."""

    enforcement: Enforcement
    how: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do on this machine.

    Args:
        backend: its name.
        available: whether it can make any sandbox.
        confines: whether untrusted code may run in it at all.
        why: what it runs on, e.g. versions; if it is not available, what is missing and how to get it.
        limits: for every limit, how well it holds.
        notes: what else a careful person wants to know.
    """

    backend: str
    available: bool
    confines: bool
    why: str
    limits: Mapping[Limit, Guarantee] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def demand(self, spec: SandboxSpec) -> None:
        """See that this spec can be held to.

        Raises:
            SandboxUnavailableError: the backend is not available, or limits that are not relaxed do not hold; the
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
    """What was left behind by owners that are gone, and is now removed; counts."""

    sandboxes: int = 0
    processes: int = 0
    directories: int = 0


class Backend(ABC):
    """Makes sandboxes of one kind. Third parties' backends register through the entry-point group
    ``turnwise.sandboxes`` and are held to the same suite: ``turnwise sandbox check NAME``.
    """

    name: ClassVar[str]

    @abstractmethod
    async def probe(self) -> Capabilities:
        """What it can do here, found out by trying, without leaving anything behind."""

    @abstractmethod
    async def create(
        self,
        spec: SandboxSpec | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        start: Snapshot | None = None,
    ) -> Sandbox:
        """A new sandbox, never one that was used before.

        Args:
            spec: what it shall be; by default ``SandboxSpec()``.
            files: what lies in its working directory, by relative path.
            start: files of another sandbox to begin with; ``files`` come after them.

        Raises:
            SandboxUnavailableError: the spec cannot be held to on this machine.
            ToolError: a path of ``files`` is refused, or they do not fit.
            SandboxError: it could not be made this time.
        """

    def keep_ready(self, n: int) -> None:
        """Make so many sandboxes of the kind last asked for ahead of time, each for one use, so that ``create`` and
        ``fork`` need not wait. A backend that cannot does nothing.
        """
        del n

    @abstractmethod
    async def reap(self) -> Reaped:
        """Remove every sandbox of this backend on this machine whose owner, a process, is gone."""

    @abstractmethod
    async def close(self) -> None:
        """Destroy all sandboxes that were made here, and let go of what the backend holds. One that is used again
        afterwards must be closed again.
        """
