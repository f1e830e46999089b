"""Private random numbers: a pure function of their key, and of nothing else."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.tasks.rng import Rng, stable_hash, unit_hash

keys = st.lists(st.text(max_size=8) | st.integers() | st.booleans() | st.none(), min_size=1, max_size=4)


def draws(rng: Rng, n: int = 5) -> list[float]:
    return [rng.random() for _ in range(n)]


@given(keys)
def test_one_key_one_stream(key: list[Any]) -> None:
    assert draws(Rng(*key)) == draws(Rng(*key))


@given(keys, keys)
def test_another_key_another_stream(one: list[Any], other: list[Any]) -> None:
    if stable_hash(*one) != stable_hash(*other):
        assert draws(Rng(*one)) != draws(Rng(*other))


def test_keys_are_not_glued_together() -> None:
    assert draws(Rng("ab", "c")) != draws(Rng("a", "bc")) != draws(Rng("abc"))
    assert draws(Rng(1)) != draws(Rng("1"))
    assert draws(Rng(["a"], "b")) != draws(Rng(["a", "b"]))


@given(keys, st.integers(0, 20))
def test_drawing_from_a_stream_does_not_move_its_children(key: list[Any], used: int) -> None:
    rng = Rng(*key)
    draws(rng, used)
    assert draws(rng.child("x")) == draws(Rng(*key, "x"))


@given(keys, st.integers(0, 20))
def test_copies_and_pickles_go_on_where_the_original_stands(key: list[Any], used: int) -> None:
    rng = Rng(*key)
    draws(rng, used)
    twins = [copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))]
    rest = draws(rng)
    assert [draws(twin) for twin in twins] == [rest, rest]
    assert all(twin.key == rng.key for twin in twins)


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    random.seed(1)
    state = random.getstate()
    first = draws(Rng("key"))
    assert random.getstate() == state
    random.seed(2)
    assert draws(Rng("key")) == first


@pytest.mark.slow
def test_the_stream_is_the_same_in_every_process_and_for_ever() -> None:
    code = (
        "from turnwise.tasks.rng import Rng, unit_hash; rng = Rng('maze', 3); "
        "print(rng.randrange(10**9), rng.pick('abcdef'), unit_hash('x', 1))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    rng = Rng("maze", 3)
    assert printed == {f"{rng.randrange(10**9)} {rng.pick('abcdef')} {unit_hash('x', 1)}\n"}
    # A change here changes every task of every family: it needs new versions of all ids.
    assert Rng("maze", 3).randrange(10**9) == 365814749


@given(keys)
def test_unit_hash_is_in_the_unit_interval(key: list[Any]) -> None:
    assert 0 <= unit_hash(*key) < 1


def test_unit_hash_is_spread_evenly() -> None:
    share = sum(unit_hash("split", i) < 0.25 for i in range(4000)) / 4000
    assert 0.22 < share < 0.28
