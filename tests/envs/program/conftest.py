"""Where programs run in tests: in a sandbox that confines, or not at all."""

from __future__ import annotations

from ..code.conftest import backend, sandbox

__all__ = ["backend", "sandbox"]
