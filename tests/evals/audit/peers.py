"""Hand-written logs of other programs, healthy and with one fault each."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from turnwise.evals.audit.checks import Audit, audit_log
from turnwise.evals.audit.logs import find_logs

Json = dict[str, Any]

# -- ATIF -----------------------------------------------------------------------------------------------------------


def trajectory(n: int, **changes: Any) -> Json:
    """A trajectory as Harbor writes it, with time stamps and token ids that continue one another."""
    times = [f"2026-11-27T10:{n % 60:02}:{second:02}Z" for second in (0, 5, 9)]
    steps: list[Json] = [
        {"step_id": 1, "source": "user", "message": "Go.", "timestamp": times[0]},
        {"step_id": 2, "source": "agent", "message": f"move {n}", "timestamp": times[1], "metrics": ids(3)},
        {"step_id": 3, "source": "agent", "message": "done", "timestamp": times[2], "metrics": ids(8)},
    ]
    made = {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "trajectory_id": f"t{n}"}
    return made | {"steps": steps} | changes


def ids(n: int, first: int = 0) -> Json:
    """Metrics of a step that read ``n`` tokens and sampled two."""
    return {"prompt_token_ids": list(range(first, first + n)), "completion_token_ids": [n, n + 1]}


def write_lines(path: Path, values: list[Any]) -> Path:
    """Write JSON lines; a string is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in values))
    return path


# -- verifiers ------------------------------------------------------------------------------------------------------


def message(role: str, text: str) -> Json:
    return {"role": role, "content": text}


def nodes(n: int) -> list[Json]:
    """A conversation of two turns as a graph: each message with the tokens that it adds."""
    texts = [("user", "Go."), ("assistant", f"move {n}"), ("user", "And?"), ("assistant", "done")]
    return [
        {
            "parent": index - 1 if index else None,
            "message": message(role, text),
            "sampled": role == "assistant",
            "timestamp": 1e9 + n + index / 10,
            "token_ids": [10 * index, 10 * index + 1],
        }
        for index, (role, text) in enumerate(texts)
    ]


def trace(n: int, **changes: Any) -> Json:
    spans = {name: {"start": 1e9 + n, "end": 1e9 + n + 2} for name in ("boot", "setup", "agent")}
    made = {
        "version": 1,
        "id": f"trace{n}",
        "agent": {"name": "agent", "trainable": True},
        "nodes": nodes(n),
        "rewards": {"solved": {"score": float(n % 2), "weight": 1.0}},
        "is_completed": True,
        "ok": True,
        "errors": [],
        "timing": {"start": 1e9 + n, **spans},
    }
    return made | changes


def episode(n: int, trace_changes: Json | None = None, **changes: Any) -> Json:
    """An episode of verifiers: attempt ``n`` at task ``n // 2``."""
    task = {"type": "T", "data": {"idx": n // 2}, "key": f"key{n // 2}", "hash": "h"}
    made = {"id": f"ep{n}", "env": {"id": "test"}, "task": task, "ok": True, "errors": []}
    return made | {"traces": [trace(n, **(trace_changes or {}))]} | changes


def write_plan(folder: Path, attempts: int, limit: int | None) -> None:
    """Write the resolved settings of a run of verifiers."""
    path = folder / "configs" / "resolved" / "eval.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"num_rollouts": attempts, "select": {"limit": limit}, "model": "m"}))


# -- inspect --------------------------------------------------------------------------------------------------------


def sample(task: int, epoch: int, **changes: Any) -> Json:
    made = {
        "id": task,
        "epoch": epoch,
        "input": "Go.",
        "target": "",
        "messages": [message("user", "Go."), message("assistant", "move")],
        "scores": {"match": {"value": "C" if task % 2 else "I"}},
        "total_time": 1 + task / 10,
        "uuid": f"{task}-{epoch}",
    }
    return made | changes


def write_eval(
    path: Path, samples: Sequence[Json | str], *, tasks: int, epochs: int, header: str = "header.json"
) -> Path:
    """Write an archive of inspect's; a sample that is a string is written as it is."""
    plan = {"dataset": {"sample_ids": list(range(1, tasks + 1))}, "config": {"epochs": epochs}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(header, json.dumps({"version": 2, "status": "success", "eval": plan}))
        archive.writestr("summaries.json", "[]")
        for index, each in enumerate(samples):
            archive.writestr(f"samples/{index}.json", each if isinstance(each, str) else json.dumps(each))
    return path


def with_zstandard(source: Path, target: Path) -> Path:
    """Write an archive again with compression 93, which Python's ``zipfile`` cannot write."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    body, directory = b"", b""
    for name, data in members.items():
        packed = pa.compress(data, "zstd", asbytes=True)
        known = struct.pack("<HHHHHIIIHH", 20, 0, 93, 0, 0, zlib.crc32(data), len(packed), len(data), len(name), 0)
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + known + struct.pack("<HHHII", 0, 0, 0, 0, len(body))
        directory += name.encode()
        body += b"PK\x03\x04" + known + name.encode() + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    target.write_bytes(body + directory + b"PK\x05\x06" + end)
    return target


# -- audits


def audited(path: Path) -> Audit:
    (log,) = find_logs(path)
    return audit_log(log)


def named(found: Audit, *, faults: bool) -> dict[str, str]:
    return {each.name: each.text for each in found.findings if each.fault is faults}


def unknown(found: Audit) -> dict[str, str]:
    return {each.name: each.why for each in found.unknown}
