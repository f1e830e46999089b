"""Find the logs at a path: ATIF trajectories, ``traces.jsonl`` of verifiers, and ``.eval`` of inspect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...rollouts.atif_import import is_atif
from .atif import lines_log, single_log
from .inspect import eval_log
from .record import Log
from .verifiers import TRACES, is_episode, traces_log

KINDS = "ATIF (.json, .jsonl), traces.jsonl of verifiers, .eval of inspect"
FIRST = 64 * 1024 * 1024
"""Maximum number of bytes of a first line that decides the format of a file."""


def find_logs(path: Path) -> list[Log]:
    """Return the logs at a path; their records are read when they are iterated.

    Args:
        path: a file, or a folder that is searched with its subfolders. In a folder, each ``.eval`` and ``.jsonl`` is
            a log, and all trajectories in files of their own are one.

    Returns:
        No logs if the path is a folder without any.

    Raises:
        UsageError: the path is a file of no format that is read here.
    """
    if path.is_file():
        log = _log(path)
        if log is None:
            raise UsageError(f"{path} is not a log that turnwise audit reads: {KINDS}")
        return [log]
    if not path.is_dir():
        return []
    logs, single = [], []
    for each in sorted(path.rglob("*")):
        if not each.is_file() or each.suffix not in (".eval", ".jsonl", ".json"):
            continue
        if each.suffix == ".json":
            single += [each] if _may_be_atif(each) else []
            continue
        try:
            log = _log(each)
        except UsageError as error:
            log = Log(each, "inspect", (), unreadable=[str(error)])
        logs += [] if log is None else [log]
    return ([single_log(path, single)] if single else []) + logs


def _log(path: Path) -> Log | None:
    if path.suffix == ".eval":
        return eval_log(path)
    if path.suffix == ".jsonl":
        first = _first_value(path)
        if path.name == TRACES or is_episode(first):
            return traces_log(path)
        return lines_log(path) if is_atif(first) else None
    return single_log(path, [path]) if path.suffix == ".json" and _may_be_atif(path) else None


def _may_be_atif(path: Path) -> bool:
    """Whether a file is a trajectory, or is named like one but cannot be read."""
    try:
        return is_atif(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return path.name.startswith("trajectory")


def _first_value(path: Path) -> Any:
    """Return the first JSON value of a file of lines; ``None`` if no line is JSON."""
    with path.open("rb") as lines:
        while line := lines.readline(FIRST):
            try:
                return json.loads(line)
            except (ValueError, RecursionError):
                continue
    return None
