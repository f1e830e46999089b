"""The ids that come with Turnwise. Classes are imported on first use."""

from __future__ import annotations

from typing import Any

from .registry import register

GAMES = "turnwise.envs.games"

IDS: tuple[tuple[str, str, dict[str, Any], str | None], ...] = ()
"""(id, ``module:Class``, constructor arguments, optional extra)."""


def register_builtin() -> None:
    """Register every id of this package; called once by the front door."""
    for id, entry_point, kwargs, extra in IDS:
        register(id, entry_point, kwargs=kwargs, source="turnwise", extra=extra)
