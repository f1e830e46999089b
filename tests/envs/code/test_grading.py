"""Grading: what solves a task is paid, and whatever else a submission does is not."""

from __future__ import annotations

import pytest

from turnwise.envs.code.grading import Bounds, Graded, _judged, graded
from turnwise.envs.code.workspace import Entry, Workspace
from turnwise.errors import SandboxError
from turnwise.sandboxes.backend import Backend
from turnwise.sandboxes.spec import Limits, SandboxSpec
from turnwise.tasks.code.cheats import module_cheats
from turnwise.tasks.code.task import Check, TestCheck, ValueCheck, WorkCheck, case
from turnwise.tasks.code.trouble import Trouble

from .tasks_of_one import RIGHT, task


def workspace(source: str | None, **others: str) -> Workspace:
    """Files as an agent left them."""
    files = {**({} if source is None else {"solution.py": source}), "notes/a b.txt": "keep\nthis\n", **others}
    return Workspace({path: Entry("file", 0o644, text.encode()) for path, text in files.items()})


async def results(backend: Backend, source: str | None, *checks: Check, **others: str) -> tuple[Graded, ...]:
    return await graded(checks or task().checks, task(), workspace(source, **others), backend)


async def test_the_solution_passes_every_kind_of_check(backend: Backend) -> None:
    assert [result.passed for result in await results(backend, RIGHT)] == [True, True, True]


ZERO = "def double(x):\n    return 0\n"
CHEATS = {
    **{
        name: attempt.files["solution.py"].decode()
        for name, attempt in module_cheats("solution.py", "def double(x):\n    return {value}\n").items()
    },
    "patches unittest": f"import unittest\nunittest.TestCase.assertEqual = lambda *all: None\n{ZERO}",
    "reports for the driver": f"import sys\nsys.modules['__main__']._dumps = lambda *all: '{{}}'\n{ZERO}",
    "says that tests passed": f"import builtins\nbuiltins.getattr = lambda *all: (lambda *more: None)\n{ZERO}",
    "is a subclass of the answer": "class N(int): pass\ndef double(x): return N(x * 2)\n",
    "is equal but of another type": "def double(x): return float(x * 2)\n",
    "raises something like it": f"class ValueError(Exception): pass\n{RIGHT}",
}


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS)
async def test_cheats_earn_nothing_for_values(backend: Backend, cheat: str) -> None:
    (result,) = await results(backend, CHEATS[cheat], task().checks[0])
    assert not result.passed, "a value must be computed to be right"


@pytest.mark.parametrize("cheat", ["ends the process well", "exits well when called", "patches unittest"])
async def test_common_cheats_earn_nothing_for_tests(backend: Backend, cheat: str) -> None:
    (result,) = await results(backend, CHEATS[cheat], task().checks[1])
    assert not result.passed


async def test_only_what_may_be_taken_is_taken(backend: Backend) -> None:
    planted = {
        "sitecustomize.py": "import os; os._exit(0)",
        "conftest.py": "1/0",
        "tests/test_double.py": "1/0",
        "canonical.py": "1/0",
    }
    assert all(result.passed for result in await results(backend, RIGHT, **planted))


TROUBLES = {
    "def double(x:": Trouble.SYNTAX,
    "import nowhere": Trouble.IMPORT,
    "def triple(x): pass": Trouble.NAME,
    "def double(): pass": Trouble.TYPE,
    "def double(x): return double(x)": Trouble.RECURSION,
    "def double(x): return x": Trouble.WRONG,
    "import os\ndef double(x): os.kill(os.getpid(), 11)": Trouble.CRASH,
    "def double(x):\n    while True: pass": Trouble.TIMEOUT,
    "raise RuntimeError": Trouble.OTHER,
}


@pytest.mark.slow
@pytest.mark.parametrize("source", TROUBLES, ids=lambda source: str(TROUBLES[source]))
async def test_what_is_wrong_has_a_class(backend: Backend, source: str) -> None:
    check = ValueCheck("values", (case("double(3)", 6),), seconds=1.0)
    (result,) = await results(backend, source, check)
    assert (result.passed, result.trouble) == (False, TROUBLES[source])


async def test_one_check_that_hangs_leaves_the_others_alone(backend: Backend) -> None:
    checks = (
        ValueCheck("hangs", (case("[x for x in iter(int, 1)]", []),), seconds=0.5),
        ValueCheck("answers", (case("double(3)", 6),)),
    )
    hangs, answers = await results(backend, RIGHT, *checks)
    assert (hangs.trouble in (Trouble.TIMEOUT, Trouble.OOM), answers.passed) == (True, True)


async def test_a_file_that_is_missing_is_said_to_be(backend: Backend) -> None:
    values, tests, _ = await results(backend, None)
    assert values.trouble is Trouble.MISSING
    assert tests.detail == "there is no file solution.py"


async def test_a_link_is_no_file(backend: Backend) -> None:
    linked = Workspace({"solution.py": Entry("link", 0o777, target="/etc/passwd")})
    (result,) = await graded(task().checks[:1], task(), linked, backend)
    assert result.trouble is Trouble.MISSING


async def test_a_test_that_is_not_there_does_not_pass(backend: Backend) -> None:
    (result,) = await results(backend, RIGHT, TestCheck("tests", ("tests/test_double.py::test_nothing",)))
    assert not result.passed


async def test_a_wrong_value_is_shown_beside_the_right_one(backend: Backend) -> None:
    (result,) = await results(backend, "def double(x): return [x]", ValueCheck("v", (case("double(3)", 6),)))
    assert result.detail == "double(3): expected 6, got [3]"


class NoSandboxes(Backend):
    """A sandbox that is never created."""

    name = "none"

    async def probe(self) -> object:  # type: ignore[override]
        raise NotImplementedError

    async def create(self, *all: object, **named: object) -> object:  # type: ignore[override]
        raise SandboxError("no room left")

    async def reap(self) -> object:  # type: ignore[override]
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def test_a_sandbox_that_cannot_be_made_is_no_grade() -> None:
    with pytest.raises(SandboxError, match="no room left"):
        await graded(task().checks, task(), workspace(RIGHT), NoSandboxes())


async def test_what_does_not_fit_the_grading_sandbox_fails_its_checks(backend: Backend) -> None:
    """A file that fills the disk left no room for the driver, and the episode was excluded instead of scored."""
    full = f"{RIGHT}# {'x' * 16 * 1024 * 1024}\n"
    everything = Bounds(taken=64 * 1024 * 1024)  # so that it is the sandbox that has no room
    found = await graded(task().checks[:2], task(), workspace(full), backend, None, everything)
    small = await graded(task().checks[:2], task(), workspace(full), backend)
    spec = SandboxSpec(limits=Limits(disk=1024 * 1024))
    tight = await graded(task().checks[:2], task(), workspace(full), backend, spec, everything)
    assert [each.trouble for each in found] == [None, None], "64 MiB of disk hold it: only bounds decide"
    assert {each.trouble for each in (*small, *tight)} == {Trouble.SIZE}, "what exceeds a bound is the agent's failure"


async def test_a_grading_ends_within_its_seconds_however_many_checks_loop(backend: Backend) -> None:
    """Twelve loops of twenty seconds each took longer than an environment has for one call."""
    checks = [ValueCheck(f"value {i}", (case("double(1)", 2),), seconds=1000.0) for i in range(12)]
    loop = workspace("while True:\n    pass\n")
    found = await graded(checks, task(), loop, backend, None, Bounds(seconds=0.5))
    assert {each.trouble for each in found} == {Trouble.TIMEOUT}, "a loop fails every check, and grading comes back"


def test_only_a_check_of_values_counts_in_part() -> None:
    cases = (case("double(1)", 2), case("double(2)", 4))
    report = {"values": [cases[0].expected, "0"], "work": [1, 1]}
    assert _judged(ValueCheck("values", cases), report).share == 0.5
    assert _judged(WorkCheck("work", cases, (5, 5)), report).share == 0, "fast and wrong is not half right"
