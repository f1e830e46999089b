"""Core and shifts: select the tests of one run, and draw samples that change with the commit.

Every run plays the core. Tests that are intrinsically long carry ``@pytest.mark.shift``; each belongs to one of
``SHIFTS`` parts, and a run plays one part, chosen by the commit, so that a few landings play all of them. The longest
are dealt out so that the shifts take about the same time, and each run begins with what takes longest (``long_tests``).
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

from .long_tests import IN_CORE, IN_SHIFTS

SHIFTS = 12
KNOWN = pytest.StashKey[frozenset[str]]()
"""Names of all collected tests, before others' shifts are deselected, and keys of their shifts."""
CHOICES = ("all", "core", "commit", *(str(number) for number in range(1, SHIFTS + 1)))
T = TypeVar("T")


def commit() -> int:
    """Return the first 32 bits of the commit's hash, or 0 outside of a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout[:8], 16) if done.returncode == 0 else 0


# Read at import, because parametrized tests draw their samples while they are collected; worker processes inherit it.
SEED = int(os.environ.setdefault("TEST_SEED", str(commit())))


def sampled(items: Sequence[T], count: int, *, key: str) -> list[T]:
    """Draw some items by the seed of the run, in their given order.

    Args:
        items: the whole product.
        count: how many to draw; all items if there are no more.
        key: makes the draw independent of other draws, e.g. the name of the test.
    """
    return [items[index] for index in _drawn(len(items), count, key)]


def core_sample(items: Sequence[Any], count: int, *, key: str, ids: Sequence[str] | None = None) -> list[ParameterSet]:
    """Parametrize a test so that the core tries a sample, drawn by the seed of the run, and shifts try the rest.

    Args:
        items: values of the parameter, or tuples of values of several parameters.
        count: how many the core tries.
        key: makes the draw independent of other draws.
        ids: names of the items; pytest's own if None.
    """
    drawn = set(_drawn(len(items), count, key))
    return [
        pytest.param(
            *(item if isinstance(item, tuple) else (item,)),
            id=None if ids is None else ids[index],
            marks=() if index in drawn else pytest.mark.shift,
        )
        for index, item in enumerate(items)
    ]


def _drawn(length: int, count: int, key: str) -> list[int]:
    return sorted(random.Random(f"{SEED} {key}").sample(range(length), min(count, length)))


def dealt_out(seconds: Mapping[str, float]) -> dict[str, int]:
    """Deal out tests to shifts: the longest first, each to the shift that has the fewest seconds so far."""
    totals, found = [0.0] * SHIFTS, {}
    for key in sorted(seconds, key=lambda key: (-seconds[key], key)):
        least = totals.index(min(totals))
        totals[least] += seconds[key]
        found[key] = least + 1
    return found


DEALT = dealt_out(IN_SHIFTS)


def shift_named(key: str) -> int:
    """Return the shift, from 1 to ``SHIFTS``, of the tests that share a key; of short ones by its hash."""
    return DEALT.get(key) or int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % SHIFTS + 1


def shift_of(item: pytest.Item) -> int | None:
    """Return a test's shift, or None if it belongs to the core.

    The marker takes an optional key: tests with the same key share a shift, and so an expensive fixture.
    """
    return None if item.get_closest_marker("shift") is None else shift_named(name_of(item))


def name_of(item: pytest.Item) -> str:
    """Return what a test is called in ``long_tests``: the key of its shift if it has one, or its node id."""
    marker = item.get_closest_marker("shift")
    return str(marker.args[0]) if marker is not None and marker.args else item.nodeid


def in_order(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return tests in the order of a run: each worker begins with some of the longest, so that none ends with one.

    ``--dist worksteal`` divides the list into contiguous parts, one for each worker, and lets an idle worker take the
    end of another's part.
    """
    seconds = {**IN_CORE, **IN_SHIFTS}
    long = sorted((item for item in items if name_of(item) in seconds), key=lambda item: -seconds[name_of(item)])
    chosen = set(long)
    rest = [item for item in items if item not in chosen]
    parts = [long[worker::workers] for worker in range(workers)]
    ends = [len(items) * (worker + 1) // workers for worker in range(workers)]
    ordered: list[pytest.Item] = []
    for part, end in zip(parts, ends, strict=True):
        short = max(0, end - len(ordered) - len(part))
        ordered += [*part, *rest[:short]]
        rest = rest[short:]
    return [*ordered, *rest]


def played(choice: str) -> frozenset[int]:
    """Return the shifts that a choice of ``--shift`` plays beside the core."""
    if choice == "all":
        return frozenset(range(1, SHIFTS + 1))
    if choice == "core":
        return frozenset()
    return frozenset({commit() % SHIFTS + 1 if choice == "commit" else int(choice)})


class Shifts:
    """Pytest plugin that deselects the other shifts and says how to repeat a failure."""

    def __init__(self, choice: str) -> None:
        self.choice, self.played = choice, played(choice)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
        """Keep the core and the shifts of this run; once others have selected and grouped, put the longest first."""
        config.stash[KNOWN] = frozenset(name_of(item) for item in items)
        others = {item for item in items if (shift := shift_of(item)) is not None and shift not in self.played}
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]
        yield
        items[:] = in_order(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what was played, and the one command that repeats each failure."""
        shifts = f"shift {', '.join(map(str, sorted(self.played)))} of {SHIFTS}" if self.played else "no shift"
        terminalreporter.write_line(f"played: the core and {shifts}; SHIFT={self.choice} TEST_SEED={SEED}")
        for report in (*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")):
            script = "scripts/test-vllm" if "vllm" in getattr(report, "keywords", ()) else "scripts/test"
            terminalreporter.write_line(f"repeat: TEST_SEED={SEED} {script} '{report.nodeid}'")
