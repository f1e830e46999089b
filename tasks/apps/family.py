"""The family of tasks in worlds of apps."""

from __future__ import annotations

from typing import Any

from ...errors import TaskError
from ..family import TaskFamily
from ..rng import Rng
from ..rows.database import Database
from ..rows.scene import Scene, Unsuitable
from ..spec import Split, TaskSpec
from .asking.levels import LEVELS, shown
from .asking.task import AppTask
from .asking.template import Template
from .catalogue import APPS, HELD_OUT, TEMPLATES
from .world.situation import Situation
from .world.world import World
from .worlds import WORLDS, Origin, origin

DRAWS = 200
"""How often a template may find a world unsuitable before that counts as a fault of it."""


class AppsFamily(TaskFamily[AppTask]):
    """Tasks in worlds of apps: a template, a world and a draw.

    Most splits use the same templates and names; ``test_template`` uses templates that no other does, ``test_entity``
    names that no other does, and ``challenge`` both, with tasks of the two apps that nothing else knows.

    Args:
        templates: only these, by name; all, if left out.
        name: of the family.
    """

    levels = tuple(LEVELS)

    def __init__(self, templates: tuple[str, ...] | None = None, *, name: str = "apps") -> None:
        unknown = set(templates or ()) - set(TEMPLATES)
        if unknown:
            raise TaskError(f"there is no template {min(unknown)!r} of apps; there are {', '.join(TEMPLATES)}")
        self.name = name
        self._templates = {one: TEMPLATES[one] for one in templates or TEMPLATES}
        self._by_split = {
            split: tuple(name for name, one in self._templates.items() if _belongs(one, split)) for split in Split
        }
        self.splits = tuple(split for split in Split if self._by_split[split])

    def __reduce__(self) -> Any:
        return (_again, (tuple(self._templates), self.name))

    def templates(self, split: Split) -> tuple[str, ...]:
        """The names of the split's templates."""
        return self._by_split[split]

    def build(self, spec: TaskSpec, rng: Rng) -> AppTask:
        """The task; a template that finds its world unsuitable gets another draw, and after some another world.

        Raises:
            TaskError: the template finds nothing suitable.
        """
        one = self._templates[spec.template]
        for number in range(DRAWS):
            begun = origin_of(spec, number)
            with begun.tried() as db:
                scene = Scene(db, begun.cast, rng.child(number), spec.level)
                try:
                    asked = one.make(scene)
                except Unsuitable:
                    continue
            there = tuple(app.name for app in APPS if spec.split is Split.CHALLENGE or app.name not in HELD_OUT)
            return AppTask(
                template=one.name,
                kind=one.kind,
                prompt=asked.prompt,
                apps=one.apps,
                must=asked.must,
                may=asked.may,
                answer=asked.answer,
                refusal=asked.refusal,
                talk=asked.talk,
                setup=tuple(scene.setup),
                rules=LEVELS[spec.level].rules,
                shown=shown(spec.level, one.apps, there, rng.child("shown")),
                secrets=asked.secrets,
                draw=number,
                solve=asked.solve,
            )
        raise TaskError(f"template {one.name!r} finds nothing to ask at level {spec.level} with seed {spec.seed}")


def origin_of(spec: TaskSpec, draw: int) -> Origin:
    """The world of a task, which changes when eight draws in one were unsuitable."""
    return origin(spec.split, (spec.seed + draw // 8) % WORLDS)


def open_world(spec: TaskSpec, task: AppTask) -> World:
    """The world of a task as its episode begins."""
    begun = origin_of(spec, task.draw)
    db = Database(begun.image)
    if task.setup:
        for table, columns in task.setup:
            db.insert(table, **columns)
        db.forget()
    apps = tuple(app for app in APPS if app.name in task.shown)
    return World(db, Situation(begun.cast.now), task.rules, apps)


def _again(templates: tuple[str, ...], name: str) -> AppsFamily:
    return AppsFamily(templates, name=name)


def _belongs(one: Template, split: Split) -> bool:
    unknown = bool(HELD_OUT & set(one.apps))
    if split is Split.CHALLENGE:
        return unknown
    if split is Split.TEST_TEMPLATE:
        return one.held_out and not unknown
    return not one.held_out and not unknown


APPS_FAMILY = AppsFamily()
"""Every template."""
