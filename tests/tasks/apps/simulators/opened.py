"""A world of the split that knows every app, open for calls."""

from __future__ import annotations

from typing import Any

import pytest

from turnwise.errors import ToolError
from turnwise.tasks.apps.simulators.catalogue import APPS, base_world
from turnwise.tasks.apps.simulators.situation import Rules, Situation
from turnwise.tasks.apps.simulators.world import World
from turnwise.tasks.rows.database import Database
from turnwise.tasks.spec import Split

LISTED = 25
"""Rows on a page."""


def opened(number: int = 0) -> World:
    """An app that needs no login."""
    base = base_world(Split.CHALLENGE, number)
    return World(Database(base.image), Situation(base.cast.now), Rules(login=False, per_page=LISTED), APPS)


def refused(world: World, name: str, code: int, /, **arguments: Any) -> None:
    """Check that a call is refused with this number, and changes nothing."""
    before = (world.db.image(), world.situation)
    with pytest.raises(ToolError, match=rf"^{code} "):
        world.call(name, arguments)
    assert (world.db.image(), world.situation) == before, f"{name} is refused and yet changes something"


def everything(world: World, name: str, /, **arguments: Any) -> list[Any]:
    """All items of a listing."""
    first = world.call(name, arguments)
    more = [world.call(name, {**arguments, "page": page}) for page in range(2, first["pages"] + 1)]
    return [item for page in (first, *more) for item in page["items"]]
