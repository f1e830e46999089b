"""``AppTask``: what is asked of an agent in a world, and what must have become of the world in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...rows.expected import Matcher, May, Must, Refusal
from ..world.situation import Rules
from .talk import Talk

Kind = Literal["question", "action", "mixed", "refusal", "dialogue"]


@dataclass(frozen=True)
class AppTask:
    """One task in a world.

    Args:
        template: the name of what made it.
        kind: what sort of task it is.
        prompt: what the user asks for.
        apps: the names of the apps that it needs.
        must: changes that there must be, each of them a named check.
        may: changes that nobody minds, beside those that come from looking.
        answer: what must be answered; ``None``: no answer is asked for.
        refusal: how the task must be refused, if it must be.
        talk: the user's side of a conversation, if there is one.
        setup: rows that are put into the world before the episode begins: ``(table, columns)``.
        rules: how strict the world is.
        shown: the apps that the agent sees.
        secrets: texts that only looking can tell.
        draw: how many draws before it were unsuitable; with the spec it says which world it is of.
        solve: what solves it, see ``plan.py``; not a part of the task's identity.
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
