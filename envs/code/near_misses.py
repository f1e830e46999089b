"""Near misses of code tasks: each task's own cheats, and submitting the files as they are."""

from __future__ import annotations

from collections.abc import Mapping

from ...tasks.code.task import CodeTask
from ..base import NearMiss
from .answers import SUBMIT, actions_of


def near_misses(work: CodeTask, how: str) -> Mapping[str, NearMiss]:
    """Return ways to play that must not succeed, by name.

    Args:
        work: the task.
        how: the way to act, as ``CodeEnv`` calls it.
    """
    plays = {name: actions_of(work, cheat, how) for name, cheat in work.cheats.items()}
    found: dict[str, NearMiss] = {name: play for name, play in plays.items() if play}
    return {**found, "says that it is done": ["done"], **({} if how == "text" else {"only submits": [SUBMIT]})}
