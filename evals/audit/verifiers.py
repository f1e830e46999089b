"""Turn ``traces.jsonl`` of verifiers 0.4 into records of an audit.

A line is an episode with a trace per agent. A trace is a graph of messages, each with the tokens that it adds to the
path from its root; a prompt that does not continue the tokens before it begins another path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic

from ...tasks.rng import stable_hash
from .record import Log, Record, Tokens, read_json

TRACES = "traces.jsonl"
CONFIG = Path("configs", "resolved", "eval.json")
"""Resolved settings of the run, beside the traces."""
TIME_OUT = "time-out"


class _Error(pydantic.BaseModel):
    type: str = "error"


class _Task(pydantic.BaseModel):
    data: dict[str, Any] = {}
    key: str | None = None
    hash: str | None = None

    @property
    def name(self) -> str | None:
        """Name of the task: its index or id, and the start of its hash, since several sets number from 0."""
        shown = next((self.data[name] for name in ("idx", "id") if self.data.get(name) is not None), None)
        mark = (self.key or self.hash or "")[:8]
        return f"{shown} ({mark})" if shown is not None and mark else str(shown) if shown is not None else mark or None


class _Reward(pydantic.BaseModel):
    score: float
    weight: float = 1.0


class _Span(pydantic.BaseModel):
    start: float = 0.0
    end: float = 0.0


class _Timing(pydantic.BaseModel):
    start: float = 0.0
    boot: _Span = _Span()
    setup: _Span = _Span()
    agent: _Span = _Span()
    finalize: _Span = _Span()
    scoring: _Span = _Span()

    @property
    def seconds(self) -> float | None:
        """Time from the start to the end of the last stage; ``None`` if none has ended."""
        end = max(span.end for span in (self.boot, self.setup, self.agent, self.finalize, self.scoring))
        return end - self.start if end and self.start else None


class _Node(pydantic.BaseModel):
    parent: int | None = None
    message: dict[str, Any] = {}
    sampled: bool = False
    timestamp: float = 0.0
    token_ids: list[int] = []


class _Agent(pydantic.BaseModel):
    name: str = "agent"


class _Trace(pydantic.BaseModel):
    id: str
    agent: _Agent = _Agent()
    nodes: list[_Node] = []
    rewards: dict[str, _Reward | None] = {}
    ok: bool = False
    is_timeout: bool = False
    errors: list[_Error] = []
    stop_condition: str | None = None
    timing: _Timing = _Timing()


class _Episode(pydantic.BaseModel):
    id: str
    task: _Task
    ok: bool = False
    is_timeout: bool = False
    errors: list[_Error] = []
    traces: list[_Trace]


class _Select(pydantic.BaseModel):
    limit: int | None = None


class _Config(pydantic.BaseModel):
    num_rollouts: int
    select: _Select = _Select()


def is_episode(data: Any) -> bool:
    """Whether a JSON value is an episode of verifiers."""
    return isinstance(data, dict) and {"id", "task", "traces"} <= data.keys()


def traces_log(path: Path) -> Log:
    """Return the log in a ``traces.jsonl``; its plan is in the run's resolved settings, if they are there."""
    log = Log(path, "verifiers", ())
    try:
        config = _Config.model_validate_json((path.parent / CONFIG).read_bytes())
    except (OSError, ValueError):
        config = None
    if config is not None:
        log.attempts, log.selected = config.num_rollouts, config.select.limit
    log.records = _lines(log)
    return log


def _lines(log: Log) -> Iterator[Record]:
    with log.path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                found = read_json(line, records_of)
                if isinstance(found, str):
                    log.unreadable.append(f"{log.path.name}:{number}: {found}")
                else:
                    yield from found


def records_of(data: Any) -> list[Record]:
    """Return a record per trace of an episode, or one for an episode in which no agent ran.

    Raises:
        pydantic.ValidationError: the value does not have the form of verifiers.
    """
    episode = _Episode.model_validate(data)
    broken = _failure(episode, episode.ok or all(trace.ok for trace in episode.traces))
    if not episode.traces:
        return [Record(episode.id, "failed", task=episode.task.name, failure=broken or "no agent ran")]
    return [_record(episode, trace, broken) for trace in episode.traces]


def _record(episode: _Episode, trace: _Trace, broken: str | None) -> Record:
    scores = [each.score * each.weight for each in trace.rewards.values() if each is not None]
    rewards = scores if math.isfinite(sum(scores)) else []
    failure = _failure(trace, trace.ok) or (broken if episode.errors or episode.is_timeout else None)
    acted = [node for node in trace.nodes if node.sampled]
    marks = (f"{node.timestamp!r} {node.message!r}" for node in acted)
    several = len(episode.traces) > 1
    return Record(
        id=f"{episode.id}/{trace.agent.name}/{trace.id}" if several else episode.id,
        outcome="failed" if failure is not None else "scored" if rewards else "unscored",
        task=episode.task.name,
        value=sum(rewards) if rewards else None,
        failure=failure,
        seconds=trace.timing.seconds,
        turns=len(acted),
        episode=episode.id,
        content=stable_hash("verifiers", *marks) if acted and all(node.timestamp for node in acted) else None,
        tokens=_tokens(trace.nodes),
    )


def _failure(of: _Episode | _Trace, ok: bool) -> str | None:
    """Return the kind of failure; errors of attempts that were retried with success are none."""
    if of.is_timeout:
        return TIME_OUT
    return None if ok else of.errors[-1].type if of.errors else "not ok"


def _tokens(nodes: list[_Node]) -> Tokens | None:
    """Compare the path to each sampled message with the path to the one sampled before it."""
    continued = rewritten = again = 0
    before: list[int] | None = None
    for index, node in enumerate(nodes):
        if not node.sampled or not node.token_ids:
            continue
        path = _path(nodes, index)
        if before is not None:
            kept = path[: len(before)] == before
            continued, rewritten = continued + kept, rewritten + (not kept)
            again += not kept and _messages(nodes, path[: len(before)]) == _messages(nodes, before)
        before = path
    return Tokens(continued, rewritten, again) if before is not None else None


def _path(nodes: list[_Node], index: int) -> list[int]:
    """Return the indices of the messages from the root to this one."""
    found, at = [index], nodes[index].parent
    while at is not None and 0 <= at < found[-1]:  # parents come first, so that a damaged graph ends too
        found.append(at)
        at = nodes[at].parent
    return found[::-1]


def _messages(nodes: list[_Node], path: list[int]) -> list[dict[str, Any]]:
    return [nodes[index].message for index in path]
