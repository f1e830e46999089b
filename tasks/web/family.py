"""The family of tasks on web sites."""

from __future__ import annotations

from typing import Any

from ...errors import TaskError
from ..family import TaskFamily
from ..rng import Rng
from ..rows.database import Database
from ..rows.scene import Scene, Unsuitable
from ..spec import Split, TaskSpec
from .asking.accounts import account_of
from .asking.compose import pairs_of
from .asking.levels import LEVELS
from .asking.task import WebTask
from .asking.template import Template
from .catalogue import BASE, HELD_OUT, SITES
from .site.sites import Rules, Sites
from .site.theme import theme_of
from .worlds import WORLDS, Origin, origin

DRAWS = 200
"""How often a template may find a world unsuitable before that counts as a fault of it."""
TEMPLATES: dict[str, Template] = {**BASE, **{one.name: one for one in pairs_of(tuple(BASE.values()))}}
"""Every template by its name: those that a person wrote, and two of them in one."""


class WebFamily(TaskFamily[WebTask]):
    """Tasks on web sites: a template, a world and a draw.

    Most splits use the same templates and names; ``test_template`` uses templates that no other does, among them
    compositions of two that a learner has only seen apart, ``test_entity`` names that no other does, and ``challenge``
    both, with tasks of sites that nothing else knows.

    Args:
        templates: only these, by name; all, if left out.
        name: of the family.
    """

    levels = tuple(LEVELS)

    def __init__(self, templates: tuple[str, ...] | None = None, *, name: str = "web") -> None:
        unknown = set(templates or ()) - set(TEMPLATES)
        if unknown:
            raise TaskError(f"there is no template {min(unknown)!r} of web tasks; there are {', '.join(BASE)}")
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

    def build(self, spec: TaskSpec, rng: Rng) -> WebTask:
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
            return WebTask(
                template=one.name,
                kind=one.kind,
                prompt=asked.prompt,
                sites=one.sites,
                level=spec.level,
                must=asked.must,
                may=asked.may,
                answer=asked.answer,
                refusal=asked.refusal,
                setup=tuple(scene.setup),
                secrets=asked.secrets,
                draw=number,
                solve=asked.solve,
            )
        raise TaskError(f"template {one.name!r} finds nothing to ask at level {spec.level} with seed {spec.seed}")


def origin_of(spec: TaskSpec, draw: int) -> Origin:
    """The world of a task, which changes when eight draws in one were unsuitable."""
    return origin(spec.split, (spec.seed + draw // 8) % WORLDS)


def open_sites(spec: TaskSpec, task: WebTask) -> Sites:
    """The sites of a task as its episode begins."""
    begun, level = origin_of(spec, task.draw), LEVELS[task.level]
    db = Database(begun.image)
    if task.setup:
        for table, columns in task.setup:
            db.insert(table, **columns)
        db.forget()
    rng = Rng("web themes", spec.digest)
    themes = {site.name: theme_of(rng.child(site.name), site.words, plain=level.plain) for site in SITES}
    sites = Sites(db, SITES, Rules(themes, level.per_page, begun.cast.now))
    if not level.login:
        for site in SITES:
            sites.enter(site.name, int(str(account_of(db, site.name)["id"])))
    return sites


def shown(task: WebTask) -> tuple[str, ...]:
    """The names of the sites that an agent is told of."""
    if not LEVELS[task.level].every_site:
        return task.sites
    known = HELD_OUT & set(task.sites)
    return tuple(site.name for site in SITES if site.name not in HELD_OUT - known)


def _again(templates: tuple[str, ...], name: str) -> WebFamily:
    return WebFamily(templates, name=name)


def _belongs(one: Template, split: Split) -> bool:
    unknown = bool(HELD_OUT & set(one.sites))
    if split is Split.CHALLENGE:
        return unknown
    if split is Split.TEST_TEMPLATE:
        return one.held_out and not unknown
    return not one.held_out and not unknown


WEB_FAMILY = WebFamily()
"""Every template."""
