"""The oracle of code tasks: it repeats the task's solution, step by step."""

from __future__ import annotations

from collections.abc import Sequence

from ...tasks.code.task import CodeTask
from ..messages import Action, ActionLike, ToolCall
from .answers import SUBMIT, actions_of
from .workspace import Workspace


def next_action(work: CodeTask, how: str, taken: Sequence[Action], files: Workspace) -> ActionLike:
    """Return the first action of the solution that is not done yet.

    Args:
        work: the task.
        how: the way to act, as ``CodeEnv`` calls it.
        taken: all actions of the episode so far.
        files: the present files.
    """
    return next((act for act in actions_of(work, work.solution, how) if not _is_done(act, taken, files)), SUBMIT)


def _is_done(action: Action, taken: Sequence[Action], files: Workspace) -> bool:
    call = action.tool_calls[0] if action.tool_calls else None
    if call is None or call == SUBMIT:
        return False
    if call.name == "write":
        there = files.content(call.arguments["path"])
        return there is not None and there == str(call.arguments["content"]).encode()
    return any(call == ToolCall(did.name, did.arguments) for past in taken for did in past.tool_calls)
