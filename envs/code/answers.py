"""Convert attempts at a task into the actions of each way to act, and plain answers into attempts."""

from __future__ import annotations

import re
import shlex

from ...errors import UsageError
from ...tasks.code.task import WHOLE, Attempt, CodeTask
from ..messages import Action, ToolCall

FENCE = re.compile(r"^[ \t]*(```+|~~~+)[^\n`]*\n(.*?)(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
"""A fenced block of code as people and models write it; a block that was cut off ends with the text."""
SUBMIT = ToolCall("submit")


def attempt_of(task: CodeTask, text: str) -> Attempt:
    """Return the attempt that a plain answer means: the content of the task's single taken file, or a command.

    Raises:
        UsageError: the task takes several files.
    """
    if not task.perform and len(task.taken) != 1:
        raise UsageError(f"a task on {len(task.taken)} files cannot have a text answer; use actions='tools'")
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    fenced = [inside for _, inside in FENCE.findall(text)]
    said = fenced[-1] if fenced else text
    if task.perform:
        quoted = said.strip() if task.perform == WHOLE else shlex.quote(said.strip())
        return Attempt(commands=(task.perform.replace(WHOLE, quoted),))
    whole = said if said.endswith("\n") or task.hole != WHOLE else f"{said}\n"
    return Attempt({task.taken[0]: task.hole.replace(WHOLE, whole if task.hole == WHOLE else said.strip()).encode()})


def text_of(task: CodeTask, attempt: Attempt) -> str | None:
    """Return the plain answer that stands for an attempt; ``None`` if no plain answer does."""
    if attempt == task.solution and task.answer:
        return task.answer
    if task.perform:
        return "\n".join(attempt.commands) if task.perform == WHOLE and not attempt.files else None
    if attempt.commands or list(attempt.files) != list(task.taken) or task.hole != WHOLE:
        return None
    return attempt.files[task.taken[0]].decode("utf-8", "replace")


def tool_calls(attempt: Attempt) -> list[ToolCall]:
    """Return the tool calls that make an attempt, without the submission."""
    writes = [ToolCall("write", {"path": path, "content": content.decode()}) for path, content in attempt.files.items()]
    return [*writes, *(ToolCall("run", {"command": command}) for command in attempt.commands)]


def cells(attempt: Attempt) -> list[ToolCall]:
    """Return the Python cells that make an attempt, without the submission."""
    lines = [
        f"from pathlib import Path\nPath({path!r}).parent.mkdir(parents=True, exist_ok=True)\n"
        f"Path({path!r}).write_bytes({content!r})"
        for path, content in attempt.files.items()
    ]
    lines += [f"import subprocess\nsubprocess.run({command!r}, shell=True)" for command in attempt.commands]
    return [ToolCall("python", {"code": line}) for line in lines]


def actions_of(task: CodeTask, attempt: Attempt, how: str) -> list[Action]:
    """Return all actions of an attempt in one way to act, submission included; empty if that way cannot express it."""
    if how == "text":
        text = text_of(task, attempt)
        return [] if text is None else [Action(text)]
    calls = tool_calls(attempt) if how == "tools" else cells(attempt)
    return [Action.of(call) for call in [*calls, SUBMIT]]
