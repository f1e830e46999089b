"""The mixin: third parties get one test per law, named by it."""

from __future__ import annotations

import unittest

import pytest

from turnwise.envs.certify.certify import LAWS
from turnwise.envs.certify.pytest_laws import EnvironmentLaws

from .faults_text import LeakedAnswer, Password
from .faults_tools import Shelf


class TestPassword(EnvironmentLaws):
    env_id = Password
    quick = True


class TestShelf(EnvironmentLaws):
    env_id = staticmethod(lambda: Shelf(max_turns=9))
    quick = True


class Leaking(EnvironmentLaws):
    env_id = LeakedAnswer
    quick = True


def test_there_is_one_test_per_law_with_its_name() -> None:
    tests = {name for name in dir(EnvironmentLaws) if name.startswith("test_")}
    assert tests == {f"test_{law.name}" for law in LAWS}


def test_a_broken_law_fails_its_test_with_the_verdict() -> None:
    with pytest.raises(AssertionError, match="contains the secret"):
        Leaking().test_answer_not_leaked()  # type: ignore[attr-defined]


def test_a_law_without_meaning_skips_its_test() -> None:
    with pytest.raises(unittest.SkipTest, match="no tools"):
        Leaking().test_tools_described()  # type: ignore[attr-defined]


def test_each_class_has_a_laboratory_of_its_own() -> None:
    assert TestPassword.harness() is TestPassword.harness()
    assert TestPassword.harness() is not Leaking.harness()
