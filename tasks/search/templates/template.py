"""``Template``: one way to generate questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .scene import Scene, TaskDraft


@dataclass(frozen=True, slots=True)
class Template:
    """One way to generate questions.

    Args:
        name: unique name.
        kind: kind of its tasks; a chain of one fact becomes ``one-hop``.
        make: function that draws a question from a scene.
        held_out: whether training splits never use it.
        hard: whether only ``challenge`` uses it.
    """

    name: str
    kind: str
    make: Callable[[Scene], TaskDraft]
    held_out: bool = False
    hard: bool = False
