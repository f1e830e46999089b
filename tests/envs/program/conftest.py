"""The sandbox of programs in tests: one that confines, or none at all."""

from __future__ import annotations

from ..code.conftest import backend, sandbox

__all__ = ["backend", "sandbox"]
