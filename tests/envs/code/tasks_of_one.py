"""Families of one task, for tests of what is around it."""

from __future__ import annotations

from turnwise.envs.code.env import CodeEnv
from turnwise.tasks.code.task import Attempt, CodeTask, FileCheck, TestCheck, ValueCheck, case, raising, text_files
from turnwise.tasks.family import TaskFamily
from turnwise.tasks.rng import Rng
from turnwise.tasks.spec import TaskSpec

RIGHT = "def double(x):\n    if x < 0:\n        raise ValueError(x)\n    return x * 2\n"
TESTS = """import unittest
from solution import double

def test_four():
    assert double(4) == 8

class Doubles(unittest.TestCase):
    def test_five(self):
        self.assertEqual(double(5), 10)
"""


class One(TaskFamily[CodeTask]):
    """Double a number."""

    name = "double"

    def build(self, spec: TaskSpec, rng: Rng) -> CodeTask:
        return CodeTask(
            prompt="Write double(x).",
            files=text_files({"solution.py": "def double(x):\n    pass\n", "notes/a b.txt": "keep\nthis\n"}),
            checks=(
                ValueCheck("values", (case("double(3)", 6), raising("double(-1)", "ValueError"))),
                TestCheck("tests", ("tests/test_double.py::test_four", "tests/test_double.py::Doubles::test_five")),
                FileCheck("notes", "notes/a b.txt", b"keep\nthis\n"),
            ),
            solution=Attempt(text_files({"solution.py": RIGHT})),
            taken=("solution.py",),
            hidden=text_files({"tests/test_double.py": TESTS}),
            visible=(ValueCheck("example", (case("double(1)", 2),)),),
            progress=(
                ValueCheck("imports", (case("callable(double)", True),)),
                ValueCheck("example", (case("double(1)", 2),)),
            ),
            weights={"values": 3.0, "tests": 1.0, "notes": 0.0},
            strict=True,
        )


class DoubleEnv(CodeEnv):
    """The one task."""

    family = One()


def task() -> CodeTask:
    """It."""
    family = One()
    return family.generate(family.spec())
