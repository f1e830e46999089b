"""Every test is played by some run, and a failure says how to repeat it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from .long_tests import IN_CORE, IN_SHIFTS
from .shifts import CHOICES, DEALT, KNOWN, SEED, SHIFTS, Shifts, dealt_out, in_order, played, sampled, shift_named

NUMBERS = range(1, SHIFTS + 1)
SWITCH = re.compile(r"""environ(?:\.get\(|\[)\s*["'](?:NIGHTLY|CI|SHIFT)["']""")


class FakeItem:
    """A collected test with or without a mark."""

    def __init__(self, nodeid: str, *, marked: bool = False, key: str | None = None) -> None:
        self.nodeid = nodeid
        self.mark = pytest.mark.shift(*[key] * (key is not None)).mark if marked else None

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.mark if name == "shift" else None


CORE = [FakeItem(f"core {number}") for number in range(5)]
LONG = [FakeItem(f"long {number}", marked=True) for number in range(100)]
SHARED = [FakeItem(f"shared {number}", marked=True, key="one server") for number in range(5)]


def selected(choice: str) -> list[str]:
    """Return the names of the tests that a choice of ``--shift`` keeps; the rest must be reported as deselected."""
    items: list[Any] = [*CORE, *LONG, *SHARED]
    reported: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: reported.extend(items))
    config: Any = SimpleNamespace(hook=hook, stash={})
    next(Shifts(choice).pytest_collection_modifyitems(config, items))
    assert len(items) + len(reported) == len(CORE) + len(LONG) + len(SHARED)
    return [item.nodeid for item in items]


def test_core_and_shifts_divide_the_tests() -> None:
    core = [item.nodeid for item in CORE]
    assert selected("core") == core
    parts = [[name for name in selected(str(number)) if name not in core] for number in NUMBERS]
    assert all(parts), "no shift is empty"
    assert sorted([*core, *(name for part in parts for name in part)]) == sorted(selected("all")), "all, and none twice"
    assert sum(any("shared" in name for name in part) for part in parts) == 1, "tests with one key share a shift"


def test_every_shift_is_played_by_some_commit() -> None:
    assert len(played("commit")) == 1
    assert {commit % SHIFTS + 1 for commit in range(SHIFTS)} == set(NUMBERS), "each remainder of a hash has a shift"
    assert frozenset.union(*(played(str(number)) for number in NUMBERS)) == played("all")
    assert {shift_named(f"test {number}") for number in range(200)} == set(NUMBERS), "each key has a shift"
    assert set(CHOICES) == {"all", "core", "commit", *map(str, NUMBERS)}


def test_the_longest_tests_are_dealt_out_evenly() -> None:
    seconds = [sum(IN_SHIFTS[key] for key in DEALT if DEALT[key] == number) for number in NUMBERS]
    assert max(seconds) - min(seconds) <= 0.2 * max(seconds), f"seconds of the longest tests by shift: {seconds}"
    numbers = [*NUMBERS, SHIFTS, SHIFTS - 1]
    full = {chr(97 + place): float(SHIFTS + 2 - place) for place in range(SHIFTS)}
    assert dealt_out(full | {"y": 2.0, "z": 1.0}) == dict(zip([*full, "y", "z"], numbers, strict=True))
    assert all(shift_named(key) == DEALT[key] for key in IN_SHIFTS)


def test_every_worker_begins_with_some_of_the_longest() -> None:
    names = [*IN_CORE, *IN_SHIFTS]
    items: list[Any] = [*CORE, *(FakeItem(name) for name in names), *LONG]
    ordered = [item.nodeid for item in in_order(items, 2)]
    assert sorted(ordered) == sorted(item.nodeid for item in items), "all, and none twice"
    long = sorted(names, key=lambda name: -{**IN_CORE, **IN_SHIFTS}[name])
    middle = len(items) // 2
    assert ordered[: len(long[::2])] == long[::2], "the first worker begins with every second one"
    assert ordered[middle : middle + len(long[1::2])] == long[1::2], "the second one begins with the others"
    short: list[Any] = [*CORE]
    assert in_order(short, 2) == short, "else the order stays"


def test_what_is_called_long_exists(request: pytest.FixtureRequest) -> None:
    known, names = request.config.stash[KNOWN], {*IN_CORE, *IN_SHIFTS}
    files = {name.split("::")[0] for name in names if "::" in name}
    assert not [file for file in files if not Path(file).exists()], "tests/long_tests.py names files that do not exist"
    if not files <= {name.split("::")[0] for name in known}:
        pytest.skip("only a run of all files knows all tests")
    assert names - known == set(), "tests/long_tests.py names tests that do not exist"


def test_no_test_has_a_switch_of_its_own() -> None:
    files = [file for file in Path(__file__).parent.rglob("*.py") if file.name != "conftest.py"]
    hidden = [file.name for file in files if SWITCH.search(file.read_text(encoding="utf-8"))]
    assert not hidden, f"these tests run only where a variable is set; mark them as a shift instead: {hidden}"


def test_a_failure_says_how_to_repeat_it() -> None:
    lines: list[str] = []
    failed = SimpleNamespace(nodeid="tests/test_a.py::test_b[c d]", keywords={"test_b": 1})
    server = SimpleNamespace(nodeid="tests/test_v.py::test_w", keywords={"vllm": 1})
    reporter = SimpleNamespace(
        write_line=lines.append, getreports=lambda kind: {"failed": [failed], "error": [server]}[kind]
    )
    Shifts("2").pytest_terminal_summary(reporter)  # type: ignore[arg-type]
    assert lines == [
        f"played: the core and shift 2 of {SHIFTS}; SHIFT=2 TEST_SEED={SEED}",
        f"repeat: TEST_SEED={SEED} scripts/test 'tests/test_a.py::test_b[c d]'",
        f"repeat: TEST_SEED={SEED} scripts/test-vllm 'tests/test_v.py::test_w'",
    ]


def test_samples_depend_on_seed_and_key_only() -> None:
    items = list(range(1000))
    drawn = sampled(items, 20, key="one")
    assert drawn == sorted(drawn) == sampled(items, 20, key="one")
    assert drawn != sampled(items, 20, key="another")
    assert sampled(items, 2000, key="one") == items
