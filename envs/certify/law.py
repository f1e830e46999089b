"""A law: a name, a sentence, and the function that tries it on an environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .harness import Harness


@dataclass(frozen=True, slots=True)
class Law:
    """One thing that must hold for every environment.

    Args:
        name: how verdicts, exemptions and test names call it.
        about: the law in one sentence.
        check: tries it; raises ``Broken`` or ``NotApplicable``, and may return a remark.
        gate: when it is broken, later laws would only repeat the same cause, and are not tried.
    """

    name: str
    about: str
    check: Callable[[Harness], str | None]
    gate: bool = False
