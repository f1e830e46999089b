"""The enumeration of grammatical proposals: the family's own question is among them, and few others have its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnwise.tasks.search.family import SearchFamily

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)


def test_a_question_of_one_fact_is_among_those_that_are_enumerated(bench: Any) -> None:
    family = SearchFamily.only(("fact-person",))
    task = family.generate(family.spec(3, level=1))
    found = {one.question: one for one in bench.proposals(task)}
    assert found[task.question].valid
    valid = [one for one in found.values() if one.valid]
    assert 0 < len(valid) < sum(one.hides and one.rests for one in found.values()), "the rules alone accept more"
    row = bench.measured(1, 4)
    assert 0 < row.sure.value < row.rules.value <= 1
