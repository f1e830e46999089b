"""Templates: functions from a world to a task on web sites, each with a name and the sites that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...rows.expected import Matcher, May, Must, Refusal
from ...rows.scene import Scene
from .task import Kind
from .walk import Walk


@dataclass(frozen=True)
class Asked:
    """What a template made: arguments as of ``WebTask``."""

    prompt: str
    solve: Callable[[Walk], None]
    must: tuple[Must, ...] = ()
    may: tuple[May, ...] = ()
    answer: Matcher | None = None
    refusal: Refusal | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Template:
    """One way to ask for something.

    Args:
        name: unique, such as ``shop_cheapest_in_category``.
        sites: that a task of it needs, the first of which begins its name.
        kind: of its tasks.
        make: the task, from a scene.
        held_out: whether only the splits ``test_template`` and ``challenge`` use it.
    """

    name: str
    sites: tuple[str, ...]
    kind: Kind
    make: Callable[[Scene], Asked]
    held_out: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Its sites."""
        return self.sites


def template(*sites: str, kind: Kind, held_out: bool = False) -> Callable[[Callable[[Scene], Asked]], Template]:
    """Make a template of a function, whose name becomes the template's.

    Args:
        sites: that its tasks need.
        kind: of its tasks.
        held_out: whether learners never see it.
    """

    def make(function: Callable[[Scene], Asked]) -> Template:
        return Template(function.__name__, sites, kind, function, held_out)

    return make
