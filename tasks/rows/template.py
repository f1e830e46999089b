"""Templates: functions from a world to a task, each with a name and with the apps or sites that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .expected import Matcher, May, Must, Refusal
from .scene import Scene

Kind = Literal[
    "question", "action", "mixed", "dialogue",  # of apps
    "lookup", "filter", "form", "checkout", "moderation", "cross", "composed",  # of sites
    "refusal",
]  # fmt: skip
"""Kinds of tasks. Of apps: a question, something to do, both, or a conversation first. Of sites: something to find,
the best of several, something to enter, several pages to go through, something to take care of, several sites, or two
tasks in one. A refusal is the right end of a task that cannot be done."""


@dataclass(frozen=True)
class TaskDraft:
    """The result of a template: the part of a task that it decides.

    Args:
        prompt: request of the user.
        solve: function that solves the task; two tasks that differ only in it are equal.
        must: required changes, each a named check.
        may: permitted changes, besides those that reading causes.
        answer: required answer; ``None`` if the task has no question.
        refusal: required refusal, if the task must be refused.
        secrets: texts that an agent can know only by reading the world.
    """

    prompt: str
    solve: Callable[[Any], None] = field(compare=False, repr=False)
    must: tuple[Must, ...] = ()
    may: tuple[May, ...] = ()
    answer: Matcher | None = None
    refusal: Refusal | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SceneTask(TaskDraft):
    """One task in a world.

    Args:
        template: name of the template that made it.
        kind: kind of task.
        needs: names of the apps or sites that it needs.
        setup: rows inserted before the episode begins, as ``(table, columns)``.
        draw: number of unsuitable draws before this one; together with the spec, it determines the world.
    """

    template: str
    kind: Kind
    needs: tuple[str, ...]
    setup: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    draw: int = 0


@dataclass(frozen=True)
class Template:
    """One way to ask for something.

    Args:
        name: unique, such as ``mail_forward_newest``.
        needs: names of the apps or sites that its tasks need; its name begins with the first, unless its kind is
            ``cross``.
        kind: kind of its tasks.
        make: function that makes a task from a scene.
        held_out: whether only the splits ``test_template`` and ``challenge`` use it.
    """

    name: str
    needs: tuple[str, ...]
    kind: Kind
    make: Callable[[Scene], TaskDraft]
    held_out: bool = False


def by_name(*groups: Iterable[Template]) -> dict[str, Template]:
    """Return the templates of several groups by their names, in order."""
    return {one.name: one for group in groups for one in group}


def template(*needs: str, kind: Kind, held_out: bool = False) -> Callable[[Callable[[Scene], TaskDraft]], Template]:
    """Make a template of a function, whose name becomes the template's.

    Args:
        needs: names of the apps or sites that its tasks need.
        kind: kind of its tasks.
        held_out: whether only the splits ``test_template`` and ``challenge`` use it.
    """

    def make(function: Callable[[Scene], TaskDraft]) -> Template:
        return Template(function.__name__, needs, kind, function, held_out)

    return make
