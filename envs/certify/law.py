"""A law: a name, a sentence, and the function that tries it on an environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...tasks.spec import TaskSpec

if TYPE_CHECKING:
    from .lab import Lab


@dataclass(frozen=True, slots=True)
class Law:
    """One thing that must hold for every environment.

    Args:
        name: how verdicts, exemptions and test names call it.
        about: the law in one sentence.
        check: tries it; raises ``Broken`` or ``NotApplicable``.
        gate: when it is broken, no later law can be tried.
    """

    name: str
    about: str
    check: Callable[[Lab], None]
    gate: bool = False


class Broken(Exception):
    """A law does not hold; the text says what happened.

    Args:
        text: what happened, with values.
        spec: the task on which it happened.
        seed: the seed of ``reset(seed=…)``, where that was used.
        policy: who played: ``"oracle"``, ``"random"``, ``"null"``, or words.
    """

    def __init__(self, text: str, spec: TaskSpec | None = None, *, seed: int | None = None, policy: str = "") -> None:
        super().__init__(text)
        begin = ""
        if spec is not None:
            begin = f"reset(options={{'task': {json.dumps(spec.to_json(), default=repr)}}})"
        elif seed is not None:
            begin = f"reset(seed={seed})"
        self.reproduce = begin + (f", then play: {policy}" if begin and policy else "")


class NotApplicable(Exception):
    """A law has no meaning for this environment; the text says why."""
