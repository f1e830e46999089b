"""The family of tasks in worlds of apps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..rng import Rng
from ..rows.family import SceneFamily
from ..rows.origin import Origin
from ..spec import Split, TaskSpec
from .catalogue import APPS, HELD_OUT, TEMPLATES
from .levels import LEVELS, shown
from .simulators.situation import Situation
from .simulators.world import World
from .templates.task import AppTask
from .worlds import origin


class AppsFamily(SceneFamily[AppTask]):
    """Tasks in worlds of apps; two apps are known to ``challenge`` only."""

    name = "apps"
    levels = tuple(LEVELS)
    known = TEMPLATES
    strange = HELD_OUT

    def world(self, split: Split, number: int) -> Origin:
        """A world of apps."""
        return origin(split, number)

    def build_task(self, spec: TaskSpec, fields: Mapping[str, Any], rng: Rng) -> AppTask:
        """The task, in a world with more apps than it needs."""
        apps = TEMPLATES[spec.template].needs
        there = tuple(app.name for app in APPS if spec.split is Split.CHALLENGE or app.name not in HELD_OUT)
        visible = shown(spec.level, apps, there, rng.child("shown"))
        return AppTask(rules=LEVELS[spec.level].rules, shown=visible, **fields)


APPS_FAMILY = AppsFamily()
"""Every template."""


def open_world(spec: TaskSpec, task: AppTask) -> World:
    """The world of a task as its episode begins."""
    begun = APPS_FAMILY.begun(spec, task.draw)
    apps = tuple(app for app in APPS if app.name in task.shown)
    return World(begun.opened(task.setup), Situation(begun.cast.now), task.rules, apps)
