"""The family of tasks on web sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..rng import Rng
from ..rows.base_world import BaseWorld
from ..rows.family import SceneFamily
from ..spec import Split, TaskSpec
from .levels import LEVELS
from .simulators.accounts import account_of
from .simulators.catalogue import HELD_OUT, SITES, base_world
from .simulators.sites import Rules, Sites
from .simulators.theme import theme_of
from .templates.catalogue import TEMPLATES
from .templates.task import WebTask


class WebFamily(SceneFamily[WebTask]):
    """Tasks on web sites; one site occurs in ``challenge`` only."""

    name = "web"
    levels = tuple(LEVELS)
    known = TEMPLATES
    held_out = HELD_OUT

    def base_world(self, split: Split, number: int) -> BaseWorld:
        """Return the base world of a number."""
        return base_world(split, number)

    def build_task(self, spec: TaskSpec, fields: Mapping[str, Any], rng: Rng) -> WebTask:
        """Return the task with the given fields."""
        return WebTask(level=spec.level, **fields)


WEB_FAMILY = WebFamily()
"""All templates."""


def open_sites(spec: TaskSpec, task: WebTask) -> Sites:
    """Return the sites of a task in their initial state."""
    base, level = WEB_FAMILY.world_for(spec, task.draw), LEVELS[task.level]
    rng = Rng("web themes", spec.digest)
    themes = {site.name: theme_of(rng.child(site.name), site.label_variants(), plain=level.plain) for site in SITES}
    sites = Sites(base.open(task.setup), SITES, Rules(themes, level.per_page, base.cast.now))
    if not level.login:
        for site in SITES:
            sites.enter(site.name, int(str(account_of(sites.db, site.name)["id"])))
    return sites


def shown(task: WebTask) -> tuple[str, ...]:
    """Return the names of the sites that the prompt lists."""
    if not LEVELS[task.level].every_site:
        return task.needs
    known = HELD_OUT & set(task.needs)
    return tuple(site.name for site in SITES if site.name not in HELD_OUT - known)
