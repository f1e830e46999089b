"""``SceneFamily``: a family whose templates derive tasks from the rows of a world."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

from ...errors import TaskError, UsageError
from ..family import TaskFamily, listed, named
from ..rng import Rng
from ..spec import Split, TaskSpec
from .base_world import BaseWorld, world_of
from .scene import Scene, Unsuitable
from .template import Template

T = TypeVar("T")
DRAWS = 200
"""Most draws that a template may find unsuitable; more indicate a fault of the template."""


class SceneFamily(TaskFamily[T]):
    """Tasks in worlds of rows: a template, a world and a draw.

    Most splits use the same templates and names; ``test_template`` uses templates that no other does, ``test_entity``
    names that no other does, and ``challenge`` both, with tasks about the parts of a world that nothing else knows.

    Args:
        templates: names of the templates to use; all, if left out.
        name: name of the family; the class's, if left out.

    Raises:
        TaskError: there is no such template.
    """

    known: ClassVar[Mapping[str, Template]]
    """All templates by name."""
    held_out: ClassVar[frozenset[str]]
    """The parts of a world that only ``challenge`` uses."""

    def __init__(self, templates: tuple[str, ...] | None = None, *, name: str | None = None) -> None:
        self.name = name or type(self).name
        self._chosen: dict[str, Template] = named(templates, self.known, self.name)
        self._by_split = {
            split: tuple(name for name, one in self._chosen.items() if self._belongs(one, split)) for split in Split
        }
        self.splits = tuple(split for split in Split if self._by_split[split])

    @classmethod
    def only(cls, templates: Sequence[str]) -> Self:
        """Return the family of some templates, the same object for the same templates.

        Raises:
            UsageError: there is no such template, or none is named.
        """
        return cls._only(listed(templates, cls.known))

    @classmethod
    @lru_cache(maxsize=64)
    def _only(cls, templates: tuple[str, ...]) -> Self:
        try:
            return cls(templates)
        except TaskError as error:
            raise UsageError(str(error)) from None

    def __reduce__(self) -> Any:
        return (_again, (type(self), tuple(self._chosen), self.name))

    def templates(self, split: Split) -> tuple[str, ...]:
        """Return the names of the split's templates."""
        return self._by_split[split]

    def build(self, spec: TaskSpec, rng: Rng) -> T:
        """Return the task; a template that finds its world unsuitable gets another draw, and later another world.

        Raises:
            TaskError: the template finds nothing suitable.
        """
        one = self._chosen[spec.template]
        for draw in range(DRAWS):
            world = self.world_for(spec, draw)
            with world.trial() as db:
                scene = Scene(db, world.cast, rng.child(draw), spec.level)
                try:
                    draft = one.make(scene)
                except Unsuitable:
                    continue
            # A template returns its fields under the names that tasks use.
            setup = tuple(scene.setup)
            fields = {"template": one.name, "kind": one.kind, "needs": one.needs, "setup": setup, "draw": draw}
            return self.build_task(spec, {**fields, **vars(draft)}, rng)
        raise TaskError(f"template {one.name!r} finds no task at level {spec.level} with seed {spec.seed}")

    def world_for(self, spec: TaskSpec, draw: int) -> BaseWorld:
        """Return the world of a task as its episodes begin, which changes when some draws in one were unsuitable."""
        return self.base_world(spec.split, world_of(spec, draw))

    @abstractmethod
    def base_world(self, split: Split, number: int) -> BaseWorld:
        """Return a world of a split, with a number from 0 to 63: a pure, cached function of both."""

    @abstractmethod
    def build_task(self, spec: TaskSpec, fields: Mapping[str, Any], rng: Rng) -> T:
        """Build the task from the result of a template.

        Args:
            spec: spec of the task.
            fields: fields of ``SceneTask``, and those that the draft of this family adds.
            rng: random numbers of the task.
        """

    def _belongs(self, one: Template, split: Split) -> bool:
        unknown = bool(self.held_out & set(one.needs))
        if split is Split.CHALLENGE:
            return unknown
        return not unknown and one.held_out == (split is Split.TEST_TEMPLATE)


def _again(cls: type[SceneFamily[Any]], templates: tuple[str, ...], name: str) -> SceneFamily[Any]:
    return cls(templates, name=name)
