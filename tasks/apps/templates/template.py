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
    """The result of a template, with the fields of ``AppTask`` of the same names."""

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
        apps: names of the apps that its tasks need.
        kind: kind of its tasks.
        make: function that makes a task from a scene.
        held_out: whether only the splits ``test_template`` and ``challenge`` use it.
        levels: levels that it has.
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
        apps: names of the apps that its tasks need; the name of the template begins with the first.
        kind: kind of its tasks.
        held_out: whether only the splits ``test_template`` and ``challenge`` use it.
    """

    def make(function: Callable[[Scene], Asked]) -> Template:
        return Template(function.__name__, apps, kind, function, held_out)

    return make
