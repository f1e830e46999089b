"""``AppTask``: a request to an agent in a world, and the required state of the world at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...rows.expected import Matcher, May, Must, Refusal
from ..simulators.situation import Rules
from .talk import Talk

Kind = Literal["question", "action", "mixed", "refusal", "dialogue"]


@dataclass(frozen=True)
class AppTask:
    """One task in a world.

    Args:
        template: name of the template that made it.
        kind: kind of task.
        prompt: request of the user.
        apps: the names of the apps that it needs.
        must: required changes, each a named check.
        may: permitted changes, besides those that reading causes.
        answer: required answer; ``None`` if the task has no question.
        refusal: required refusal, if the task must be refused.
        talk: user's side of a conversation, if there is one.
        setup: rows inserted before the episode begins, as ``(table, columns)``.
        rules: strictness of the apps.
        shown: the apps that the agent sees.
        secrets: texts that an agent can know only by reading the world.
        draw: number of unsuitable draws before this one; together with the spec, it determines the world.
        solve: function that solves it, see ``plan.py``; two tasks that differ only in it are equal.
    """

    template: str
    kind: Kind
    prompt: str
    apps: tuple[str, ...]
    must: tuple[Must, ...] = ()
    may: tuple[May, ...] = ()
    answer: Matcher | None = None
    refusal: Refusal | None = None
    talk: Talk | None = None
    setup: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    rules: Rules = field(default_factory=Rules)
    shown: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    draw: int = 0
    solve: Callable[[Any], None] | None = field(default=None, compare=False, repr=False)
