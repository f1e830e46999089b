"""``WebTask``: a request to an agent on web sites, and the required state of their rows at the end."""

from __future__ import annotations

from dataclasses import dataclass

from ...rows.template import SceneTask


@dataclass(frozen=True, kw_only=True)
class WebTask(SceneTask):
    """One task on the sites of a world; the browser begins at the first site that it needs.

    Args:
        level: 1 to 5.
    """

    level: int
