"""The family of tasks in worlds of apps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..rng import Rng
from ..rows.base_world import BaseWorld
from ..rows.family import SceneFamily
from ..spec import Split, TaskSpec
from .levels import LEVELS, shown
from .simulators.catalogue import APPS, HELD_OUT, base_world
from .simulators.situation import Situation
from .simulators.world import World
from .templates.catalogue import TEMPLATES
from .templates.task import AppTask


class AppsFamily(SceneFamily[AppTask]):
    """Tasks in worlds of apps; two apps are known to ``challenge`` only."""

    name = "apps"
    levels = tuple(LEVELS)
    known = TEMPLATES
    held_out = HELD_OUT

    def base_world(self, split: Split, number: int) -> BaseWorld:
        """Return the base world of a number."""
        return base_world(split, number)

    def build_task(self, spec: TaskSpec, fields: Mapping[str, Any], rng: Rng) -> AppTask:
        """Return the task, in a world with more apps than it needs."""
        there = tuple(app.name for app in APPS if spec.split is Split.CHALLENGE or app.name not in HELD_OUT)
        visible = shown(spec.level, fields["needs"], there, rng.child("shown"))
        return AppTask(rules=LEVELS[spec.level].rules, shown=visible, **fields)


APPS_FAMILY = AppsFamily()
"""All templates."""


def open_world(spec: TaskSpec, task: AppTask) -> World:
    """Return the world of a task in its initial state."""
    base = APPS_FAMILY.world_for(spec, task.draw)
    apps = tuple(app for app in APPS if app.name in task.shown)
    return World(base.open(task.setup), Situation(base.cast.now), task.rules, apps)
