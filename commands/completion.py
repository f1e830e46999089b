"""Shell completion: environment ids, and the arguments of ``turnwise train``."""

from __future__ import annotations

from ..envs.registry import entries


def environment_ids(incomplete: str) -> list[str]:
    """Return the ids that start with the typed text, also after ``env=``."""
    prefix = "env=" if incomplete.startswith("env=") else ""
    return [f"{prefix}{entry.id}" for entry in entries() if f"{prefix}{entry.id}".startswith(incomplete)]
