"""Logs of inspect: each planted fault is found by name, and a clean log has none."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from turnwise.rollouts.inspect_eval import write_eval as export_eval

from ...rollouts.test_exports import BROKEN
from . import peers
from .peers import audited, named, unknown
from .test_store import HEALTHY

SAMPLES = [peers.sample(task, epoch) for task in (1, 2, 3) for epoch in (1, 2)]


def test_a_clean_log_of_inspect_has_no_finding(tmp_path: Path) -> None:
    found = audited(peers.write_eval(tmp_path / "a.eval", [*SAMPLES], tasks=3, epochs=2))
    assert (found.findings, found.outcomes) == ((), {"scored": 6})
    assert unknown(found) == {"tokens": "no token ids in this log"}


def test_a_sample_with_an_error_and_no_score_is_no_zero(tmp_path: Path) -> None:
    broken = peers.sample(3, 2, scores=None, error={"message": "RuntimeError('gone')"})
    found = audited(peers.write_eval(tmp_path / "a.eval", [*SAMPLES[:5], broken], tasks=3, epochs=2))
    assert found.findings == ()
    assert found.outcomes == {"scored": 5, "failed": 1}


WRONG = {"match": {"value": "I"}}
INSPECT: dict[str, tuple[list[Any], str, str, bool]] = {
    "a lost sample": (SAMPLES[1:], "lost", "1 of 6 planned episodes is not in the log: 1 of task 1", True),
    "a sample twice": ([*SAMPLES, SAMPLES[2] | {"uuid": "x"}], "duplicated", "more than once: 2 epoch 1", True),
    "a copy": ([*SAMPLES[:5], SAMPLES[2] | {"id": 3, "epoch": 2}], "duplicated", "3 epoch 2 = 2 epoch 1", True),
    "a zero of an error": (
        [*SAMPLES[:5], peers.sample(3, 2, scores=WRONG, error={"message": "RuntimeError('gone')"})],
        "zeros",
        "although it failed (1 RuntimeError); 1 counts as zero: 3 epoch 2",
        True,
    ),
    "a zero of a time limit": (
        [*SAMPLES[:5], peers.sample(3, 2, scores=WRONG, limit={"type": "time", "limit": 60})],
        "zeros",
        "although it failed (1 time limit); 1 counts as zero: 3 epoch 2",
        True,
    ),
    "a score after a time limit": (
        [*SAMPLES[:5], peers.sample(3, 2, limit={"type": "time", "limit": 60})],
        "zeros",
        "1 episode has a positive score after a failure (1 time limit): 3 epoch 2",
        False,
    ),
    "a full context": (
        [*SAMPLES[:5], peers.sample(3, 2, scores=WRONG, limit={"type": "context", "limit": 1})],
        "zeros",
        "1 of 6 scored episodes is a failure of the policy (1 context limit): 3 epoch 2",
        False,
    ),
    "a damaged sample": ([*SAMPLES, "{"], "unreadable", "1 file or line could", True),
}


@pytest.mark.parametrize("planted", INSPECT)
def test_a_fault_in_inspects_log_is_found(planted: str, tmp_path: Path) -> None:
    samples, name, words, fault = INSPECT[planted]
    found = audited(peers.write_eval(tmp_path / "a.eval", samples, tasks=3, epochs=2))
    assert set(named(found, faults=fault)) == {name}
    assert words in named(found, faults=fault)[name]
    assert named(found, faults=not fault) == {}


def test_a_run_that_did_not_end_has_lost_samples(tmp_path: Path) -> None:
    path = peers.write_eval(tmp_path / "a.eval", SAMPLES[:4], tasks=3, epochs=2, header="_journal/start.json")
    assert "2 of 6 planned episodes are not in the log: 2 of task 3" in named(audited(path), faults=True)["lost"]


def test_samples_are_read_as_inspect_compresses_them(tmp_path: Path) -> None:
    path = peers.write_eval(tmp_path / "a.eval", [*SAMPLES], tasks=3, epochs=2)
    packed = peers.with_zstandard(path, tmp_path / "z.eval")
    assert packed.read_bytes() != path.read_bytes()
    assert audited(packed) == audited(path)
    torn = bytearray(packed.read_bytes())
    torn[torn.index(b"samples/3.json") + 30] ^= 255
    packed.write_bytes(torn)
    found = audited(packed)
    assert (len(found.unreadable), found.outcomes) == (1, {"scored": 5})
    assert "samples/3.json: damaged" in found.unreadable[0]


def test_an_agents_own_limit_is_no_failure(tmp_path: Path) -> None:
    samples = [*SAMPLES[:5], peers.sample(3, 2, scores=WRONG, limit={"type": "message", "limit": 60})]
    assert audited(peers.write_eval(tmp_path / "a.eval", samples, tasks=3, epochs=2)).findings == ()


def test_turnwises_own_export_is_read(tmp_path: Path) -> None:
    export_eval(tmp_path / "own.eval", HEALTHY)
    assert audited(tmp_path / "own.eval").findings == ()
    export_eval(tmp_path / "broken.eval", [*HEALTHY, BROKEN])
    assert audited(tmp_path / "broken.eval").outcomes == {"scored": 30, "failed": 1}


@pytest.mark.parametrize("damage", ["deflate", "encryption"])
def test_a_damaged_sample_is_one_line_and_the_others_are_read(tmp_path: Path, damage: str) -> None:
    path = peers.write_eval(tmp_path / "a.eval", [*SAMPLES], tasks=3, epochs=2)
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("samples/2.json")
    if damage == "deflate":
        start = info.header_offset + 30 + len(info.filename)
        raw[start : start + info.compress_size] = b"\xff" * info.compress_size
    else:
        at = raw.rindex(b"samples/2.json") - 46  # its entry in the directory
        raw[at + 8] |= 1
    path.write_bytes(bytes(raw))
    found = audited(path)
    assert len(found.unreadable) == 1
    assert found.outcomes == {"scored": 5}


def test_samples_without_a_uuid_are_no_copies(tmp_path: Path) -> None:
    samples = [{**each, "uuid": None, "total_time": 1.0} for each in SAMPLES]
    assert audited(peers.write_eval(tmp_path / "a.eval", samples, tasks=3, epochs=2)).findings == ()
