"""``turnwise audit`` on logs of other programs: output, exit code and bad files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import UsageError
from turnwise.evals.audit.checks import audit_log
from turnwise.evals.audit.logs import find_logs

from ...commands.conftest import run  # noqa: F401 - a fixture
from . import peers
from .test_atif import FAILED_ZERO
from .test_inspect import SAMPLES
from .test_verifiers import CLEAN

Run = Callable[..., Any]


def test_bad_files_get_one_line_each(tmp_path: Path) -> None:
    (tmp_path / "a.eval").write_bytes(b"PK\x03\x04 torn")
    peers.write_eval(tmp_path / "b.eval", [*SAMPLES], tasks=3, epochs=2)
    (tmp_path / "notes.jsonl").write_text('{"loss": 1}\n')
    bad, good = (audit_log(log) for log in find_logs(tmp_path))
    assert (bad.passed, len(bad.unreadable)) == (False, 1)
    assert good.passed
    with pytest.raises(UsageError, match=r"is not a readable \.eval file"):
        find_logs(tmp_path / "a.eval")
    with pytest.raises(UsageError, match="is not a log that turnwise audit reads: ATIF"):
        find_logs(tmp_path / "notes.jsonl")


ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    float("nan"),
    "",
    "\ud800",
    "9999-12-31T23:59:59-12:00",
    [],
    [[]],
    {},
    [1.5],
)


def variants(value: Any) -> Iterator[Any]:
    """The value with each of its parts replaced by something odd."""
    yield from ODD
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        for changed in variants(value[key]):
            made = copy(value)
            made[key] = changed
            yield made


def odd(value: Any) -> list[str]:
    return [json.dumps(each) for each in variants(value)]


def test_odd_values_anywhere_end_no_audit(tmp_path: Path) -> None:
    peers.write_lines(tmp_path / "atif.jsonl", [peers.trajectory(0), *odd(peers.trajectory(1, extra=FAILED_ZERO))])
    peers.write_lines(tmp_path / "traces.jsonl", [CLEAN[0], *odd(peers.episode(1))])
    limited = peers.sample(1, 2, limit={"type": "time", "limit": 60}, error={"message": "gone"})
    peers.write_eval(tmp_path / "a.eval", [SAMPLES[0], *odd(limited)], tasks=1, epochs=2)
    for log in find_logs(tmp_path):
        found = audit_log(log)
        assert found.unreadable, log.format
        assert sum(found.outcomes.values()) > 10, f"{log.format}: most parts of a record may be anything"
        json.dumps([asdict(each) for each in found.findings])


def test_the_command_reads_them(run: Run) -> None:  # noqa: F811
    peers.write_eval(Path("clean.eval"), [*SAMPLES], tasks=3, epochs=2)
    ran = run("audit", "clean.eval")
    assert ran.code == 0, ran.err
    assert "clean.eval (inspect): 6 scored" in ran.out
    assert "tokens: not recorded: no token ids in this log" in ran.out
    peers.write_lines(Path("logs/traces.jsonl"), [*CLEAN, CLEAN[0], "{"])
    peers.write_lines(Path("logs/atif.jsonl"), [peers.trajectory(1)])
    ran = run("audit", "logs")
    assert ran.code == 1
    assert "FAULT duplicated: 1 episode id occurs more than once: ep0" in ran.out
    assert "BAD   traces.jsonl:10: not JSON" in ran.out
    told = json.loads(run("audit", "logs", "--json").out)
    assert [(each["format"], each["passed"]) for each in told["logs"]] == [("ATIF", True), ("verifiers", False)]
    assert told["passed"] is False
    run("audit", "guess.py").refused("is not a log that turnwise audit reads")
    run("audit", "nowhere").refused("it does not exist")
