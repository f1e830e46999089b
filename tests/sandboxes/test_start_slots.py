"""No more sandboxes start at a time than there are slots, over all processes, and a dead process holds none."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from pathlib import Path

import pytest

from turnwise.errors import SandboxError, UsageError
from turnwise.sandboxes.start_slots import STARTS, StartSlots, number_from

OTHER = """
import asyncio, sys
from pathlib import Path
from turnwise.sandboxes.start_slots import StartSlots

async def hold():
    async with StartSlots("test", 2, Path(sys.argv[1])).slot():
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(hold())
"""


async def crowd(slots: list[StartSlots], count: int) -> int:
    """The most that held a slot at a time among many that want one."""
    holding = most = 0

    async def one(number: int) -> None:
        nonlocal holding, most
        async with slots[number % len(slots)].slot():
            holding += 1
            most = max(most, holding)
            for _ in range(5):
                await asyncio.sleep(0)
            holding -= 1

    async with asyncio.timeout(60):
        await asyncio.gather(*map(one, range(count)))
    return most


async def test_no_more_start_than_there_are_slots(tmp_path: Path) -> None:
    several = [StartSlots("test", 3, tmp_path / "locks") for _ in range(4)]  # as in four processes
    assert await crowd(several, 60) <= 3
    assert await crowd([StartSlots("test", 1, tmp_path / "one")], 20) == 1


async def test_kinds_have_slots_of_their_own(tmp_path: Path) -> None:
    one, other = StartSlots("one", 1, tmp_path), StartSlots("other", 1, tmp_path)
    async with asyncio.timeout(60), one.slot(), other.slot():
        pass


async def test_a_process_that_is_killed_gives_its_slot_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OTHER, str(tmp_path)]
    other = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert await other.stdout.readline() == b"held\n"
        own = StartSlots("test", 2, tmp_path)
        async with own.slot():
            waiting = asyncio.ensure_future(crowd([own], 1))
            _, pending = await asyncio.wait([waiting], timeout=0.3)
            assert pending, "two slots, and three that hold one"
            other.kill()
            assert await waiting == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            other.kill()
        await other.wait()


async def test_one_that_is_cancelled_takes_no_slot(tmp_path: Path) -> None:
    slots = StartSlots("test", 1, tmp_path)
    async with slots.slot():
        waiting = [asyncio.ensure_future(crowd([slots], 1)) for _ in range(3)]
        await asyncio.sleep(0.05)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert await crowd([slots], 2) == 1


async def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(SandboxError, match="another user"):
        async with StartSlots("test", 1, tmp_path / "link").slot():
            pass


def test_the_number_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert number_from(STARTS, 7) == 7
    monkeypatch.setenv(STARTS, "3")
    assert StartSlots("test").count == 3
    for wrong in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv(STARTS, wrong)
        with pytest.raises(UsageError, match=f"{STARTS} must be a whole number above 0; got '{wrong}'"):
            StartSlots("test")


async def test_the_global_generator_stays_where_it_is(tmp_path: Path) -> None:
    before = random.getstate()
    await crowd([StartSlots("test", 1, tmp_path)], 3)
    assert random.getstate() == before, "episodes that open sandboxes would no longer be reproducible"
