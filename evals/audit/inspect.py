"""Turn logs of inspect (``.eval``, version 2) into records of an audit.

The file is a zip archive: ``header.json`` at the end of a run, ``_journal/start.json`` from its start, and a JSON file
per sample. A sample that is written again replaces the one before, so equal names in the archive are one sample.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic

from ...errors import UsageError
from ...tasks.rng import stable_hash
from .archive import read_member
from .record import Log, Record, read_json

HEADERS = ("header.json", "_journal/start.json")
SAMPLES = "samples/"
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's values for correct, partial, incorrect and no answer."""
CUT_SHORT = {"time": "time limit", "working": "working time limit", "operator": "stopped by the operator"}
"""Limits that say nothing about the answer; those of messages, turns, tokens and cost are the agent's own."""
BY_POLICY = {"context": "context limit"}


class _Score(pydantic.BaseModel):
    value: Any = None


class _Error(pydantic.BaseModel):
    message: str = ""


class _Limit(pydantic.BaseModel):
    type: str


class _Sample(pydantic.BaseModel):
    id: int | str
    epoch: int
    scores: dict[str, _Score] | None = None
    error: _Error | None = None
    limit: _Limit | None = None
    total_time: float | None = None
    uuid: str | None = None
    turn_count: int | None = None
    messages: list[dict[str, Any]] = []
    metadata: dict[str, Any] = {}


class _Dataset(pydantic.BaseModel):
    sample_ids: list[int | str] | None = None


class _Config(pydantic.BaseModel):
    epochs: int | None = None


class _Eval(pydantic.BaseModel):
    dataset: _Dataset = _Dataset()
    config: _Config = _Config()


class _Header(pydantic.BaseModel):
    version: int
    eval: _Eval


def eval_log(path: Path) -> Log:
    """Return the log in a ``.eval`` file.

    Raises:
        UsageError: the file is not such an archive, or has no header.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            header = _header(archive)
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise UsageError(f"{path} is not a readable .eval file: {error}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not a log of inspect: {error}") from None
    ids = header.eval.dataset.sample_ids
    log = Log(path, "inspect", (), attempts=header.eval.config.epochs or 1)
    log.tasks = None if ids is None else [str(id) for id in dict.fromkeys(ids)]
    log.records = _samples(log)
    return log


def _header(archive: zipfile.ZipFile) -> _Header:
    name = next((name for name in HEADERS if name in archive.NameToInfo), None)
    if name is None:
        raise ValueError(f"it has no {' or '.join(HEADERS)}")
    made: list[_Header] = []
    found = read_json(read_member(archive, name), lambda data: made.append(_Header.model_validate(data)) or [])  # type: ignore[func-returns-value]
    if isinstance(found, str):
        raise ValueError(f"{name} is {found}")
    return made[0]


def _samples(log: Log) -> Iterator[Record]:
    with zipfile.ZipFile(log.path) as archive:
        for name in [name for name in archive.NameToInfo if name.startswith(SAMPLES) and name.endswith(".json")]:
            try:
                found = read_json(read_member(archive, name), _record_of)
            except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError) as error:
                found = f"damaged: {error}"
            if isinstance(found, str):
                log.unreadable.append(f"{log.path.name} {name}: {found}")
            else:
                yield from found


def _record_of(data: Any) -> Record:
    sample = _Sample.model_validate(data)
    values = [number for score in (sample.scores or {}).values() if (number := _number(score.value)) is not None]
    limit = sample.limit.type if sample.limit is not None else ""
    failure = BY_POLICY.get(limit) or CUT_SHORT.get(limit)
    if sample.error is not None:
        failure = _kind(sample.error.message)
    by_policy = limit in BY_POLICY and sample.error is None
    answers = sum(message.get("role") == "assistant" for message in sample.messages)
    mark = sample.uuid or sample.metadata.get("episode_id")  # Turnwise writes no uuid
    outcome = "failed" if failure is not None else "scored" if values else "unscored"
    return Record(
        id=f"{sample.id} epoch {sample.epoch}",
        outcome=outcome,
        task=str(sample.id),
        value=sum(values) / len(values) if values else None,
        failure=failure,
        by_policy=by_policy,
        seconds=sample.total_time,
        turns=sample.turn_count if sample.turn_count is not None else answers or None,
        content=stable_hash("inspect", str(mark)) if mark is not None else None,
    )


def _number(value: Any) -> float | None:
    """Return a score as a number; ``None`` if it has no order, such as a dictionary or a free text."""
    if isinstance(value, str):
        return LETTERS.get(value)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _kind(message: str) -> str:
    """Return the class in front of an error's message (``TimeoutError('…')``, ``SandboxError: …``), or ``error``."""
    head = message.partition("(")[0].partition(":")[0].strip()
    return head if head.isidentifier() else "error"
