"""Turn ATIF trajectories into records of an audit.

ATIF has no reward, task or error. Trajectories of Turnwise have them in ``extra`` (``rollouts/atif.py``); of others,
they are not recorded. Durations come from time stamps of steps. A trajectory that another one names as its
continuation is the rest of the same episode.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pydantic

from ...rollouts.episode import Outcome
from ...tasks.rng import stable_hash
from .record import Log, Record, Tokens, continuity, read_json


class _Metrics(pydantic.BaseModel):
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None


class _Step(pydantic.BaseModel):
    step_id: int
    source: str
    message: Any = ""
    timestamp: datetime | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    extra: dict[str, Any] | None = None


class _Totals(pydantic.BaseModel):
    total_steps: int | None = None


class _Trajectory(pydantic.BaseModel):
    steps: list[_Step]
    session_id: str | None = None
    trajectory_id: str | None = None
    notes: str | None = None
    final_metrics: _Totals | None = None
    continued_trajectory_ref: str | None = None
    extra: dict[str, Any] | None = None


def single_log(folder: Path, files: list[Path]) -> Log:
    """Return a log whose episodes are files, each with one trajectory."""
    log = Log(folder, "ATIF", ())
    log.records = _files(log, files)
    return log


def lines_log(path: Path) -> Log:
    """Return a log whose episodes are the lines of one file."""
    log = Log(path, "ATIF", ())
    log.records = _lines(log, path)
    return log


def _files(log: Log, files: list[Path]) -> Iterator[Record]:
    found, after = dict[Path, Record](), dict[Path, Path]()

    def parsed(data: Any, path: Path, name: str) -> Record:
        record = record_of(data, name, path.parent)
        if (rest := _Trajectory.model_validate(data).continued_trajectory_ref) is not None:
            after[path.resolve()] = (path.parent / rest).resolve()
        return record

    for path in files:
        name = str(path.relative_to(log.path)) if path != log.path else path.name
        try:
            text = path.read_bytes()
        except OSError as error:
            log.unreadable.append(f"{name}: {error.strerror}")
            continue
        read = read_json(text, lambda data, path=path, name=name: parsed(data, path, name))  # type: ignore[misc]
        if isinstance(read, str):
            log.unreadable.append(f"{name}: {read}")
        else:
            found[path.resolve()] = read[0]
    yield from _episodes(found, after)


def _episodes(found: Mapping[Path, Record], after: Mapping[Path, Path]) -> Iterator[Record]:
    """Yield a record per episode, made of its trajectory and those in which it continues.

    Args:
        found: record of each file.
        after: file in which a file continues.
    """
    seen = set[Path]()
    rest = {after[path] for path in found if path in after}
    for first in [*(path for path in found if path not in rest), *found]:  # the second time, only circles are left
        parts, at = list[Record](), first
        while at in found and at not in seen:
            seen.add(at)
            parts.append(found[at])
            at = after.get(at, at)
        if parts:
            yield _joined(parts)


def _joined(parts: Sequence[Record]) -> Record:
    """Return the record of an episode from those of its parts: the last one knows how it ended."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return first
    times = [part.seconds for part in parts if part.seconds is not None]
    tokens = [part.tokens for part in parts if part.tokens is not None]
    contents = [part.content.hex() for part in parts if part.content is not None]
    return replace(
        last,
        id=first.id,
        task=first.task or last.task,
        seconds=sum(times) if times else None,
        turns=sum(part.turns or 0 for part in parts),
        parent=first.parent,
        incomplete=next((part.incomplete for part in parts if part.incomplete), None),
        content=stable_hash("atif", *contents) if contents else None,
        tokens=Tokens(sum(each.continued for each in tokens), sum(each.rewritten for each in tokens))
        if tokens
        else None,
    )


def _lines(log: Log, path: Path) -> Iterator[Record]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            name = f"{path.name}:{number}"
            found = read_json(line, lambda data, name=name: record_of(data, name, path.parent))  # type: ignore[misc]
            if isinstance(found, str):
                log.unreadable.append(f"{name}: {found}")
            else:
                yield from found


def record_of(data: Any, name: str, folder: Path) -> Record:
    """Return the record of a trajectory.

    Args:
        data: JSON value of the trajectory.
        name: name of the episode if the trajectory has no id.
        folder: folder of its file, to which references are relative.

    Raises:
        pydantic.ValidationError: it does not have ATIF's form.
    """
    trajectory = _Trajectory.model_validate(data)
    extra = trajectory.extra or {}
    own = [step for step in trajectory.steps if not step.is_copied_context]  # the rest is in an earlier trajectory
    agent = [step for step in own if step.source == "agent"]
    times = [step.timestamp.timestamp() for step in own if step.timestamp is not None]
    timed = [step for step in agent if step.timestamp is not None]
    outcome = extra.get("outcome")
    failed = outcome in (Outcome.INFRA_FAILED, Outcome.CANCELLED) or (outcome is None and bool(extra.get("error")))
    by_policy = outcome == Outcome.POLICY_FAILED
    reward, success = extra.get("reward"), extra.get("success")
    return Record(
        id=trajectory.trajectory_id or name,
        outcome=str(outcome) if outcome is not None else "failed" if failed else "recorded",
        task=_task(extra),
        value=float(success) if isinstance(success, bool) else _number(reward),
        failure=_kind(extra, str(outcome)) if failed or by_policy else None,
        by_policy=by_policy,
        unscorable=outcome in (Outcome.INFRA_FAILED, Outcome.CANCELLED),
        seconds=max(times) - min(times) if len(times) > 1 else None,
        turns=len(agent),
        parent=_parent(extra),
        incomplete=_missing(trajectory, folder),
        content=stable_hash("atif", *(f"{step.timestamp} {step.message!r}" for step in timed)) if timed else None,
        tokens=continuity(_turns(agent)),
    )


def _turns(steps: list[_Step]) -> Iterator[tuple[str, list[int], list[int]]]:
    for step in steps:
        if step.metrics is not None:
            seat = str((step.extra or {}).get("seat", ""))
            yield seat, step.metrics.prompt_token_ids or [], step.metrics.completion_token_ids or []


def _task(extra: Mapping[str, Any]) -> str | None:
    task = extra.get("task")
    if isinstance(task, dict) and {"family", "seed"} <= task.keys():
        return "-".join(str(task.get(name)) for name in ("family", "template", "level", "split", "seed"))
    return json.dumps(task, sort_keys=True) if task is not None else None


def _parent(extra: Mapping[str, Any]) -> str | None:
    fork = extra.get("fork")
    return str(fork["parent"]) if isinstance(fork, dict) and fork.get("parent") else None


def _kind(extra: Mapping[str, Any], outcome: str) -> str:
    head = str(extra.get("error") or "").partition(":")[0].strip()
    return head if head.isidentifier() else outcome


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _missing(trajectory: _Trajectory, folder: Path) -> str | None:
    """Say what part of a trajectory is missing."""
    numbers = [step.step_id for step in trajectory.steps]
    if numbers != list(range(1, len(numbers) + 1)):
        return f"its steps are not numbered 1 to {len(numbers)}"
    total = trajectory.final_metrics.total_steps if trajectory.final_metrics is not None else None
    if total is not None and total > len(numbers) and not trajectory.notes:
        return f"{len(numbers)} of {total} steps"
    after = trajectory.continued_trajectory_ref
    if after is not None and "://" not in after and not os.path.isfile(folder / after):
        return f"no file {after}, in which it continues"
    return None
