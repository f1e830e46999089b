"""Sandboxes: backends that run untrusted code under limits, and the suite that checks them.

``__all__`` is public, and imported on first use. Everything else in this folder is internal and may change.
"""

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .backend import Backend, Capabilities
    from .check.check import check as check_backend
    from .loop import LOOP
    from .named import backend_named, backend_names, default_backend
    from .result import ExecResult, Status
    from .runner.backend import RunnerBackend
    from .sandbox import Sandbox, Session
    from .snapshot import Snapshot
    from .spec import Limits, Mount, SandboxSpec

__all__ = [
    "LOOP",
    "Backend",
    "Capabilities",
    "ExecResult",
    "Limits",
    "Mount",
    "RunnerBackend",
    "Sandbox",
    "SandboxSpec",
    "Session",
    "Snapshot",
    "Status",
    "backend_named",
    "backend_names",
    "check_backend",
    "default_backend",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__)
