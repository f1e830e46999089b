"""``Template``: a way to ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .scene import Asked, Scene


@dataclass(frozen=True, slots=True)
class Template:
    """A way to ask.

    Args:
        name: unique.
        kind: of its tasks; those of a chain of one fact are called one-hop.
        make: what is asked, from a scene.
        held_out: whether learners never see it.
        hard: whether only ``challenge`` has it.
    """

    name: str
    kind: str
    make: Callable[[Scene], Asked]
    held_out: bool = False
    hard: bool = False
