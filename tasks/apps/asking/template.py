"""Templates: functions from a world to a task, each with a name, the apps that it needs and the levels it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...rows.expected import Matcher, May, Must, Refusal
from ...rows.scene import Scene
from .plan import Solver
from .talk import Talk
from .task import Kind


@dataclass(frozen=True)
class Asked:
    """What a template made: arguments as of ``AppTask``."""

    prompt: str
    solve: Callable[[Solver], None]
    must: tuple[Must, ...] = ()
    may: tuple[May, ...] = ()
    answer: Matcher | None = None
    refusal: Refusal | None = None
    talk: Talk | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Template:
    """One way to ask for something.

    Args:
        name: unique, such as ``mail_forward_newest``.
        apps: that a task of it needs.
        kind: of its tasks.
        make: the task, from a scene.
        held_out: whether only the splits ``test_template`` and ``challenge`` use it.
        levels: that it has.
    """

    name: str
    apps: tuple[str, ...]
    kind: Kind
    make: Callable[[Scene], Asked]
    held_out: bool = False
    levels: tuple[int, ...] = (1, 2, 3, 4, 5)

    @property
    def needs(self) -> tuple[str, ...]:
        """Its apps."""
        return self.apps


def template(*apps: str, kind: Kind, held_out: bool = False) -> Callable[[Callable[[Scene], Asked]], Template]:
    """Make a template of a function, whose name becomes the template's.

    Args:
        apps: that its tasks need, the first of which begins its name.
        kind: of its tasks.
        held_out: whether learners never see it.
    """

    def make(function: Callable[[Scene], Asked]) -> Template:
        return Template(function.__name__, apps, kind, function, held_out)

    return make
