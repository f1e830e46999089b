"""Faulty backends: each fault is caught, named by the case that it breaks. The healthy twin passes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from turnwise.errors import UsageError
from turnwise.sandboxes.check import harness
from turnwise.sandboxes.check.check import CASES, check, chosen_cases
from turnwise.sandboxes.check.report import Verdict
from turnwise.verdicts import Status

from ...shifts import sampled
from .faults import FAULTS, ForgetsToDestroy
from .wrapped import WrappedBackend, faulty

UNBROKEN = {
    39: "threads that end are bubblewrap's trap: only a backend that spawns by itself can fall into it",
    40: "creation is cancelled inside of a backend",
    41: "what dead owners leave is inside of a backend",
    137: "a backend that confines nothing has no mounts",
    167: "a backend that confines nothing limits no disk",
}
"""Cases of the contract that no wrapper round another backend breaks, and why."""

DRAWN = {kind for kind, _, _ in sampled(FAULTS, 8, key="faults of backends")}
"""Faults that the core tries; the others are in shifts."""


async def report_of(kind: type[WrappedBackend], **how: Any) -> Any:
    backend = kind()
    try:
        return await check(backend, **how)
    finally:
        await backend.inner.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "number", "words"),
    [
        pytest.param(
            kind, number, words, id=f"{kind.__name__}-{number}", marks=() if kind in DRAWN else pytest.mark.shift
        )
        for kind, number, words in FAULTS
    ],
)
async def test_a_planted_fault_is_caught_and_named(kind: type[WrappedBackend], number: int, words: str) -> None:
    (verdict,) = (await report_of(kind, cases=[number])).verdicts
    assert verdict.status is Status.FAIL, f"case {number} must fail for {kind.__name__}: {verdict}"
    assert re.search(words, verdict.evidence), f"the evidence must say what is wrong ({words}): {verdict.evidence}"


def test_every_case_of_the_contract_has_a_planted_fault() -> None:
    planted = {number for _, number, _ in FAULTS}
    promised_by_all = {case.number for case in CASES if not case.confines}
    assert promised_by_all - planted - set(UNBROKEN) == set(), "a case that nothing breaks may be unable to fail"
    assert len({kind.__name__ for kind, _, _ in FAULTS}) == len(FAULTS)


@pytest.mark.slow
@pytest.mark.shift
async def test_the_healthy_twin_passes_every_case() -> None:
    report = await report_of(WrappedBackend, kills=2)
    assert report.passed, str(report)
    tried = {verdict.number for verdict in report.verdicts if verdict.status is Status.PASS}
    assert len(tried) > 35, "and not because nothing was tried"


@pytest.mark.slow
async def test_what_is_left_over_fails_the_case_that_left_it() -> None:
    (verdict,) = (await report_of(faulty(ForgetsToDestroy), cases=["text is for the shell"])).verdicts
    assert verdict.status is Status.FAIL
    assert "left over: " in verdict.evidence, verdict.evidence


async def test_hostile_code_is_not_tried_where_it_would_meet_the_host() -> None:
    class ClaimsToConfine(WrappedBackend):
        async def probe(self) -> Any:
            return dataclasses.replace(await super().probe(), confines=True)

    report = await report_of(ClaimsToConfine, cases=[9, 18])  # harmless ones: others kill all that they can reach
    for verdict in report.verdicts:
        assert verdict.status is Status.FAIL
        assert "shares namespaces of the host" in verdict.evidence, "every hostile case must stop here"


async def test_of_what_confines_nothing_hostile_cases_are_not_promised() -> None:
    report = await report_of(WrappedBackend, cases=[1, 25, 102])
    outcomes = {verdict.number: verdict.status for verdict in report.verdicts}
    assert outcomes == {1: Status.SKIP, 25: Status.SKIP, 102: Status.PASS}
    assert report.passed


@pytest.mark.slow
async def test_verdicts_are_announced_and_reported() -> None:
    heard: list[Verdict] = []
    report = await report_of(WrappedBackend, cases=["endings are told apart", 102], on_verdict=heard.append)
    assert tuple(heard) == report.verdicts
    as_json = report.to_json()
    assert as_json["passed"] is True
    assert [each["status"] for each in as_json["verdicts"]] == ["pass", "pass"]
    assert "2 passed, 0 failed" in str(report)


def test_cases_are_chosen_by_number_and_name() -> None:
    assert [case.number for case in chosen_cases(["fork bomb", 12, "1"])] == [1, 12]
    assert {case.number for case in chosen_cases([])} >= set(range(1, 49)), "the 48 hostile cases are all there"
    with pytest.raises(UsageError, match=r"no case 'fork bob'.*did you mean 'fork bomb'"):
        chosen_cases(["fork bob"])


def test_no_program_that_attacks_can_be_imported() -> None:
    folder = Path(harness.__file__).parent / "payloads"
    programs = sorted(folder.iterdir())
    assert len(programs) > 20
    for path in programs:
        assert path.suffix == ".txt", f"{path.name}: what imports every module would run it on this machine, as we are"
        compile(path.read_text(), path.name, "exec")


def test_cases_say_what_they_try() -> None:
    assert len({case.number for case in CASES}) == len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        assert len(case.about) > 30, f"case {case.number} needs a sentence"
        assert len(case.name) < 60
