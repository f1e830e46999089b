"""Compositions of two tasks, of which training shows only the parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...rng import unit_hash
from ...rows.expected import Matcher
from ...rows.scene import Scene
from ...rows.template import TaskDraft, Template
from .walk import Walk

COMPOSED = 60
"""Approximate number of compositions."""
ANSWERS = ("lookup", "filter")
ACTS = ("form", "checkout", "moderation")


def pairs_of(templates: Sequence[Template]) -> tuple[Template, ...]:
    """Return compositions of templates of different sites: a lookup or an action, followed by an action.

    All of them are held out. Those of sites that training never uses belong to ``challenge``, like these sites.
    """
    found = [
        (first, second)
        for first in templates
        for second in templates
        if first.kind in (*ANSWERS, *ACTS) and second.kind in ACTS and not (first.held_out or second.held_out)
        if set(first.needs).isdisjoint(second.needs)
    ]
    share = COMPOSED / max(COMPOSED, len(found))
    return tuple(
        composed(first, second) for first, second in found if unit_hash("compose", first.name, second.name) < share
    )


def composed(first: Template, second: Template) -> Template:
    """Return the template that asks for one task and then for another."""

    def make(scene: Scene) -> TaskDraft:
        parts = [one.make(_part(scene, number)) for number, one in enumerate((first, second))]
        scene.need(all(part.refusal is None for part in parts))
        answers = [part.answer for part in parts if part.answer is not None]

        def solve(walk: Walk) -> None:
            quiet = _Quiet(walk)
            for part in parts:
                part.solve(cast(Walk, quiet))
            walk.answer(quiet.answered)

        prompt = f"Please do two things. First: {parts[0].prompt} Second: {parts[1].prompt}"
        return TaskDraft(
            prompt,
            solve,
            must=tuple(must for part in parts for must in part.must),
            may=tuple(may for part in parts for may in part.may),
            answer=Both(answers[0], answers[1]) if len(answers) > 1 else answers[0] if answers else None,
            secrets=tuple(secret for part in parts for secret in part.secrets),
        )

    name = f"{first.name}_then_{second.name}"
    return Template(name, (*first.needs, *second.needs), "composed", make, held_out=True)


def _part(scene: Scene, number: int) -> Scene:
    """Return the scene of one part: the same world with random numbers of its own."""
    return Scene(scene.db, scene.cast, scene.rng.child("part", number), scene.level, scene.setup)


@dataclass(frozen=True)
class Both:
    """Two answers in either order.

    Args:
        first: matcher of the first part's answer.
        second: matcher of the second part's answer.
    """

    first: Matcher
    second: Matcher

    def matches(self, value: Any) -> bool:
        """Return whether a text contains both, with a comma, a semicolon, a line break or "and" between them."""
        if not isinstance(value, str) or len(value) > 2000:
            return False
        for gap in re.finditer(r"[,;\n]|\band\b", value):
            before, after = value[: gap.start()].strip(), value[gap.end() :].strip()
            if self.first.matches(before) and self.second.matches(after):
                return True
            if self.first.matches(after) and self.second.matches(before):
                return True
        return False


class _Quiet:
    """A walk that stores an answer for later."""

    def __init__(self, walk: Walk) -> None:
        self._walk, self.answered = walk, ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._walk, name)

    def answer(self, value: Any = "") -> None:
        """Store the answer."""
        said = ", ".join(value) if isinstance(value, list) else str(value)
        self.answered = "; ".join(part for part in (self.answered, said) if part)
