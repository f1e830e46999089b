"""Parts of solutions in the tracker that several tasks share."""

from __future__ import annotations

from typing import Any

from ....rows.scene import Scene
from ...simulators.accounts import account_of
from ...simulators.tracker.rows import ISSUES
from ..walk import Walk

OWN = f"""SELECT * FROM ({ISSUES}) WHERE project_id IN (SELECT project_id FROM tracker_members WHERE account_id = ?)
    AND status = 'open'"""
"""Open issues of the projects that an account works on."""


def me_in(scene: Scene) -> Any:
    """Return the id of the user's account."""
    return account_of(scene.db, "tracker")["id"]


def open_issue(walk: Walk, title: str) -> None:
    """Find an issue by its title."""
    walk.goto("tracker")
    walk.fill(walk.word("words"), title)
    walk.click(walk.word("search"))
    walk.click(title, within=walk.entry(title))


def open_project(walk: Walk, name: str) -> None:
    """Find a project by its name."""
    walk.goto("tracker")
    walk.click(name, within=walk.entry(name))
