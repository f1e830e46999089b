"""``WebTask``: what is asked of an agent on web sites, and what must have become of their rows in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...rows.expected import Matcher, May, Must, Refusal
from .walk import Walk

Kind = Literal["lookup", "filter", "form", "checkout", "moderation", "cross", "refusal", "composed"]
"""What sort of task it is: something to be found; the best of several; something to be entered; several pages to go
through; something to be taken care of; several sites; something that cannot be done; two tasks in one."""


@dataclass(frozen=True)
class WebTask:
    """One task on the sites of a world.

    Args:
        template: the name of what made it.
        kind: what sort of task it is.
        prompt: what the user asks for.
        sites: the names of the sites that it needs; the browser begins at the first.
        level: 1 to 5.
        must: changes that there must be, each of them a named check.
        may: changes that nobody minds.
        answer: what must be told; ``None``: nothing is asked for.
        refusal: how the task must be refused, if it must be.
        setup: rows that are put into the world before the episode begins: ``(table, columns)``.
        secrets: texts that only looking can tell.
        draw: how many draws before it were unsuitable; with the spec it says which world it is of.
        solve: what solves it; not a part of the task's identity.
    """

    template: str
    kind: Kind
    prompt: str
    sites: tuple[str, ...]
    level: int
    must: tuple[Must, ...] = ()
    may: tuple[May, ...] = ()
    answer: Matcher | None = None
    refusal: Refusal | None = None
    setup: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    secrets: tuple[str, ...] = ()
    draw: int = 0
    solve: Callable[[Walk], None] | None = field(default=None, compare=False, repr=False)
