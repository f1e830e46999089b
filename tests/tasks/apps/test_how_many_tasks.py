"""The number of different tasks of apps: by question and world, not by their seeds."""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
if not BENCHMARKS.is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)
SAMPLE = 8000


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("apps_levels")


@pytest.mark.shift
@pytest.mark.timeout(600)
def test_there_are_a_hundred_thousand_different_tasks(bench: Any) -> None:
    """Over all splits, levels and templates: few tasks of a random sample are equal, so there must be many."""
    many = bench.how_many(SAMPLE)
    print(many)
    assert many.surely >= 100_000, many
    assert many.seen >= 0.95 * SAMPLE, many


@settings(max_examples=30, deadline=None)
@given(st.integers(50, 2000), st.integers(0, 10**6), st.sampled_from((0.0, 1.0, 2.0)))
def test_no_more_is_promised_than_there_is(bench: Any, things: int, seed: int, skew: float) -> None:
    """Also where some things are drawn far more often than others."""
    rng = random.Random(seed)
    weights = [1 / (1 + number) ** skew for number in range(things)]
    sample = [str(one).encode() for one in rng.choices(range(things), weights, k=600)]
    assert bench.distinct(sample).surely <= 1.05 * things


def test_a_sample_without_equal_ones_promises_no_more_than_its_pairs_tell(bench: Any) -> None:
    found = bench.distinct(str(number).encode() for number in range(1000))
    assert found.estimate == math.inf
    assert found.surely == pytest.approx(1000 * 999 / 2 / 3)
