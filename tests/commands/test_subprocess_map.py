"""Calls in processes of their own: one's end is not another's."""

from __future__ import annotations

import multiprocessing
import operator
import os
import time

from turnwise.commands.subprocess_map import subprocess_map
from turnwise.errors import EnvironmentDiedError


def test_results_and_exceptions_come_back_with_their_calls() -> None:
    found = dict(subprocess_map(operator.truediv, [(1, 2), (1, 0), (6, 3)], workers=2))
    assert (found[1, 2], found[6, 3]) == (0.5, 2.0)
    assert isinstance(found[1, 0], ZeroDivisionError), "what a call raises is its answer"


def test_a_death_is_an_answer() -> None:
    found = dict(subprocess_map(os._exit, [(3,), (0,)], workers=1))
    for code in (3, 0):
        death = found[code,]
        assert isinstance(death, EnvironmentDiedError), "a process that ends without an answer has died"
        assert f"exit code {code}" in str(death)


def test_leaving_early_ends_the_processes() -> None:
    calls = subprocess_map(time.sleep, [(0,), (600,), (600,)], workers=2)
    assert next(calls) == ((0,), None)
    calls.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children(), "nothing goes on behind one's back"


def test_no_calls() -> None:
    assert list(subprocess_map(operator.neg, [], workers=4)) == []
